//! Fenced Redlock, small enough to be looked at from every side.
//!
//! Not the code but its rules: three nodes, two or three attempts, messages that come late, in any order or never,
//! grants that end early, a node that forgets. A checker goes through every state. Each rule can be left out; then it has
//! to find what goes wrong, and shows the shortest way there: from the beginning, or from where a few steps have led.
//!
//! - [`fenced`]: the votes of one lock: rules R1 to R6.
//! - [`queue`]: the line and its hand-over: rules (a) to (d).
//! - [`sets`]: one set of nodes takes the place of another.

pub mod fenced;
pub mod queue;
pub mod sets;

use std::cell::Cell;
use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Model, Property};

thread_local! {
    /// Whether steps are named: while searching, nobody reads the names.
    static NAMING: Cell<bool> = const { Cell::new(false) };
}

/// The name of a step, if somebody reads it.
macro_rules! say {
    ($($words:tt)*) => { if crate::is_naming() { format!($($words)*) } else { String::new() } };
}
pub(crate) use say;

fn is_naming() -> bool {
    NAMING.with(Cell::get)
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Search {
    /// Different states.
    pub states: usize,
    /// All there are were seen.
    pub complete: bool,
    /// What went wrong, and the steps that lead there.
    pub counterexample: Option<(String, Vec<String>)>,
}

/// A system whose every step can be named.
pub trait System: Clone + Send + Sync + 'static {
    /// Where it stands.
    type State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static;

    /// Where it begins.
    fn first(&self) -> Self::State;

    /// Every step from here: its name (made by `say!`), and where it leads.
    fn steps(&self, state: &Self::State) -> Vec<(String, Self::State)>;

    /// What is wrong here.
    fn wrong(&self, state: &Self::State) -> Option<&'static str>;
}

/// One step: its name, and where it leads.
#[derive(Clone, Debug, PartialEq)]
struct Step<S>(String, S);

#[derive(Clone)]
struct Walk<T>(T);

const RIGHT: &str = "nothing is wrong";

impl<T: System> Model for Walk<T> {
    type State = T::State;
    type Action = Step<T::State>;

    fn init_states(&self) -> Vec<Self::State> {
        vec![self.0.first()]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        if self.0.wrong(state).is_none() {
            actions.extend(self.0.steps(state).into_iter().map(|(name, next)| Step(name, next)));
        }
    }

    fn next_state(&self, _: &Self::State, Step(_, next): Self::Action) -> Option<Self::State> {
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(RIGHT, |walk: &Self, state| walk.0.wrong(state).is_none())]
    }
}

/// Goes through the states, breadth first, until it has taken so many steps.
pub fn search<T: System>(system: &T, most: usize) -> Search {
    let checker = Walk(system.clone()).checker().target_state_count(most).spawn_bfs().join();
    let counterexample = checker.discovery(RIGHT).map(|path| {
        let why = system.wrong(path.last_state()).unwrap_or_default();
        (why.to_owned(), names(system, &path.into_states()))
    });
    let complete = counterexample.is_none() && checker.state_count() < most;
    Search { states: checker.unique_state_count(), complete, counterexample }
}

/// Does something while steps have names.
pub(crate) fn naming<T>(work: impl FnOnce() -> T) -> T {
    let before = NAMING.with(|naming| naming.replace(true));
    let done = work();
    NAMING.with(|naming| naming.set(before));
    done
}

/// How each state follows from the one before it.
fn names<T: System>(system: &T, states: &[T::State]) -> Vec<String> {
    let name = |pair: &[T::State]| system.steps(&pair[0]).into_iter().find(|(_, next)| *next == pair[1]);
    naming(|| states.windows(2).filter_map(name).map(|(name, _)| name).collect())
}
