//! Who waits for whom, and where that closes a circle. Pure: it works on what can be seen of the locks.
//!
//! An actor waits for every holder that excludes it, and in a fair line for everybody before it who excludes it. A cycle
//! of such waits ends only when somebody gives up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::actor::ActorId;
use crate::state::{Holder, LockState};
use crate::token::FencingToken;

/// Two waits that began within this of each other began at the same time: pictures of two locks are not taken at once.
const SAME_TIME: Duration = Duration::from_millis(50);

/// One actor waits for another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    pub(crate) by: ActorId,
    pub(crate) on: ActorId,
    /// The place of the lock among the states.
    lock: usize,
    /// The token of the other's hold; none if it is only before us in line.
    token: Option<FencingToken>,
    waited: Duration,
}

/// Every wait of an actor for an actor.
pub(crate) struct Waits<'a> {
    states: &'a [LockState],
    by_actor: BTreeMap<ActorId, Vec<Wait>>,
}

/// Waits of which each is on the actor of the next, and the last on that of the first.
pub(crate) type Cycle = Vec<Wait>;

impl<'a> Waits<'a> {
    pub(crate) fn seen_in(states: &'a [LockState]) -> Self {
        let mut by_actor: BTreeMap<ActorId, Vec<Wait>> = BTreeMap::new();
        for (lock, state) in states.iter().enumerate() {
            for (place, waiter) in state.waiters.iter().enumerate() {
                let Some(by) = waiter.actor else { continue };
                let wait = |on, token| Wait { by, on, lock, token, waited: waiter.waited };
                let excludes = |shared: bool| !(shared && waiter.shared);
                let holders = state.holders.iter().filter(|holder| excludes(holder.shared));
                let holders = holders.filter_map(|holder| Some(wait(holder.actor?, holder.token)));
                let before = state.waiters[..place].iter().filter(|other| excludes(other.shared));
                // Two waits of one actor do not wait for each other: the first ends, then the second.
                let before = before.filter_map(|other| other.actor).filter(|other| *other != by);
                by_actor.entry(by).or_default().extend(holders.chain(before.map(|other| wait(other, None))));
            }
        }
        // Rather told by who holds than by who is before us.
        by_actor.values_mut().for_each(|waits| waits.sort_by_key(|wait| wait.token.is_none()));
        Self { states, by_actor }
    }

    /// Cycles that together have every actor that waits for itself, each as short as can be.
    pub(crate) fn cycles(&self) -> Vec<Cycle> {
        let (mut known, mut cycles) = (BTreeSet::new(), Vec::new());
        for actor in self.by_actor.keys() {
            if known.contains(actor) {
                continue;
            }
            if let Some(cycle) = self.cycle_of(*actor, |_| true) {
                known.extend(cycle.iter().map(|wait| wait.by));
                cycles.push(self.turned_to_first_name(cycle));
            }
        }
        // Whoever is between two of a cycle in line is in it too, over the same locks.
        cycles.sort_by_key(Vec::len);
        let mut told = BTreeSet::new();
        cycles.retain(|cycle| told.insert(self.numbers_of(cycle)));
        cycles
    }

    /// The shortest cycle that this actor closes by waiting for this lock.
    pub(crate) fn closed_by(&self, actor: ActorId, name: &str) -> Option<Cycle> {
        let cycle = self.cycle_of(actor, |wait| self.states[wait.lock].name == name)?;
        Some(self.turned_to_first_name(cycle))
    }

    fn cycle_of(&self, actor: ActorId, first: impl Fn(&Wait) -> bool) -> Option<Cycle> {
        let waits_of = |actor: &ActorId| self.by_actor.get(actor).into_iter().flatten();
        let mut reached: BTreeMap<ActorId, &Wait> = BTreeMap::new();
        let mut next: VecDeque<&Wait> = waits_of(&actor).filter(|wait| first(wait)).collect();
        while let Some(wait) = next.pop_front() {
            if reached.contains_key(&wait.on) {
                continue;
            }
            reached.insert(wait.on, wait);
            if wait.on == actor {
                break;
            }
            next.extend(waits_of(&wait.on));
        }
        let mut cycle = vec![Wait::clone(reached.get(&actor)?)];
        while cycle[cycle.len() - 1].by != actor {
            let by = cycle[cycle.len() - 1].by;
            cycle.push(Wait::clone(reached.get(&by)?));
        }
        cycle.reverse();
        Some(cycle)
    }

    /// The same cycle is told in the same order, wherever it was found.
    fn turned_to_first_name(&self, mut cycle: Cycle) -> Cycle {
        let first = (0..cycle.len()).min_by_key(|at| &self.states[cycle[*at].lock].name).unwrap_or_default();
        cycle.rotate_left(first);
        cycle
    }

    /// Whether every wait of this cycle, found in an earlier picture, has lasted until this one. Then all of them were
    /// there between the two, at one moment, though no picture was taken at one moment.
    pub(crate) fn confirms(&self, cycle: &Cycle, of: &Waits<'_>) -> bool {
        cycle.iter().all(|old| {
            let lasts = |new: &Wait| {
                (new.by, new.on, new.token) == (old.by, old.on, old.token)
                    && self.states[new.lock].name == of.states[old.lock].name
                    // Other nodes' clocks may have told it this time.
                    && new.waited + SAME_TIME >= old.waited
            };
            self.by_actor.get(&old.by).is_some_and(|waits| waits.iter().any(lasts))
        })
    }

    /// The locks of a cycle: the holder of each waits for the next.
    pub(crate) fn locks_of(&self, cycle: &Cycle) -> Vec<LockState> {
        self.numbers_of(cycle).into_iter().map(|lock| self.states[lock].clone()).collect()
    }

    fn numbers_of(&self, cycle: &Cycle) -> Vec<usize> {
        let mut locks: Vec<usize> = cycle.iter().map(|wait| wait.lock).collect();
        locks.dedup();
        if locks.len() > 1 && locks.first() == locks.last() {
            locks.pop();
        }
        locks
    }
}

/// How many of a cycle should give way before this actor does: whoever began to wait last is the first.
pub(crate) fn turn_to_give_way(cycle: &Cycle, actor: ActorId) -> usize {
    let waited = |actor| cycle.iter().find(|wait| wait.by == actor).map_or(Duration::MAX, |wait| wait.waited);
    let mine = waited(actor);
    let before_me = cycle.iter().filter(|wait| match wait.waited.abs_diff(mine) < SAME_TIME {
        true => wait.by > actor,
        false => wait.waited < mine,
    });
    before_me.count()
}

/// The one holder of a lock who waits for the next lock of a cycle.
pub(crate) fn holder_who_waits_for<'a>(lock: &'a LockState, next: &LockState) -> Option<&'a Holder> {
    let waits = |holder: &&Holder| holder.actor.is_some() && next.waiters.iter().any(|it| it.actor == holder.actor);
    lock.holders.iter().find(waits).or(lock.holders.first())
}

/// A cycle in words.
pub(crate) struct InWords<'a>(pub(crate) &'a [LockState]);

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, lock) in self.0.iter().enumerate() {
            let next = &self.0[(at + 1) % self.0.len()];
            let joint = if at == 0 { "" } else { "; " };
            write!(f, "{joint}{:?} is held by ", lock.name)?;
            match holder_who_waits_for(lock, next) {
                Some(holder) => write!(f, "{holder}")?,
                None => f.write_str("another")?,
            }
            write!(f, ", who waits for {:?}", next.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Waiter;

    /// `x` is held by some and waited for by others; a capital letter wants it for itself, a small one only reads.
    fn lock(name: &str, holders: &str, waiters: &str) -> LockState {
        let mut state = LockState::free(name);
        for (number, actor) in holders.chars().enumerate() {
            let mut holder = Holder::new(actor.to_string());
            holder.shared = actor.is_lowercase();
            holder.token = FencingToken::from_number(1 + number as u64);
            holder.actor = Some(id(actor));
            state.holders.push(holder);
        }
        for (place, actor) in waiters.chars().enumerate() {
            let waited = Duration::from_secs(100 - place as u64);
            let mut waiter = Waiter::new(actor.to_string(), actor.is_lowercase(), waited);
            waiter.actor = Some(id(actor));
            state.waiters.push(waiter);
        }
        state
    }

    fn id(actor: char) -> ActorId {
        ActorId(u64::from(u32::from(actor.to_ascii_uppercase())))
    }

    fn found(states: &[LockState]) -> Vec<String> {
        let waits = Waits::seen_in(states);
        let names = |cycle| waits.locks_of(cycle).iter().map(|state| state.name.clone()).collect::<Vec<_>>().join(" ");
        waits.cycles().iter().map(names).collect()
    }

    #[test]
    fn two_locks_in_opposite_order_are_a_cycle() {
        assert_eq!(found(&[lock("a", "A", "B"), lock("b", "B", "A")]), ["a b"]);
        assert_eq!(found(&[lock("b", "B", "A"), lock("a", "A", "B"), lock("c", "C", "AB")]), ["a b"]);
    }

    #[test]
    fn a_chain_is_no_cycle() {
        assert!(found(&[lock("a", "A", "B"), lock("b", "B", "C"), lock("c", "C", "D")]).is_empty());
        assert!(found(&[lock("a", "A", "BCD"), lock("b", "BCD", "")]).is_empty());
    }

    #[test]
    fn readers_do_not_wait_for_readers_but_for_a_writer_between_them() {
        assert!(found(&[lock("a", "a", "b"), lock("b", "b", "a")]).is_empty());
        // `b` reads behind the writer `C`, who waits for the reader `a`, who waits for what `b` has.
        assert_eq!(found(&[lock("a", "a", "Cb"), lock("b", "B", "A")]), ["a b"]);
        // The writer waits for every reader.
        assert_eq!(found(&[lock("a", "ab", "C"), lock("c", "C", "B")]), ["a c"]);
    }

    #[test]
    fn separate_cycles_are_told_apart_and_each_as_short_as_can_be() {
        let states =
            [lock("a", "A", "B"), lock("b", "B", "A"), lock("c", "C", "D"), lock("d", "D", "E"), lock("e", "E", "C")];
        assert_eq!(found(&states), ["a b", "c e d"]);
        let shortcut = [lock("a", "A", "CB"), lock("b", "B", "A"), lock("c", "C", "B")];
        assert_eq!(found(&shortcut), ["a b", "a b c"]);
    }

    #[test]
    fn one_between_two_of_a_cycle_in_line_is_no_cycle_of_its_own() {
        for bystander in ["0", "Z"] {
            let line = format!("{bystander}A");
            assert_eq!(found(&[lock("a", "A", "B"), lock("b", "B", &line)]), ["a b"], "{bystander}");
        }
    }

    #[test]
    fn an_actor_that_waits_for_what_it_holds_waits_for_ever() {
        assert_eq!(found(&[lock("a", "A", "A")]), ["a"]);
        assert!(found(&[lock("a", "B", "AA")]).is_empty(), "two waits of one actor end one after the other");
    }

    #[test]
    fn the_last_to_wait_gives_way_first_and_of_two_at_once_the_one_with_the_higher_number() {
        let mut states = [lock("a", "A", "B"), lock("b", "B", "A")];
        let turns = |states: &[LockState]| {
            let cycle = Waits::seen_in(states).cycles().remove(0);
            ['A', 'B'].map(|actor| turn_to_give_way(&cycle, id(actor)))
        };
        assert_eq!(turns(&states), [1, 0]);
        states[1].waiters[0].waited -= Duration::from_secs(5);
        assert_eq!(turns(&states), [0, 1]);
    }

    #[test]
    fn a_cycle_is_confirmed_only_if_every_wait_has_lasted() {
        let old = [lock("a", "A", "B"), lock("b", "B", "A")];
        let before = Waits::seen_in(&old);
        let cycle = before.closed_by(id('A'), "b").expect("a cycle");
        assert!(before.closed_by(id('A'), "a").is_none());
        assert!(Waits::seen_in(&old).confirms(&cycle, &before));
        let mut again = old.clone();
        again[1].holders[0].token = FencingToken::from_number(9);
        assert!(!Waits::seen_in(&again).confirms(&cycle, &before), "B let go and came back");
        let mut again = old.clone();
        again[0].waiters[0].waited = Duration::ZERO;
        assert!(!Waits::seen_in(&again).confirms(&cycle, &before), "B left the line and came back");
    }

    #[test]
    fn a_cycle_reads_as_a_sentence() {
        let states = [lock("a", "A", "B"), lock("b", "B", "A")];
        assert_eq!(
            InWords(&states).to_string(),
            "\"a\" is held by A (token 1), who waits for \"b\"; \"b\" is held by B (token 1), who waits for \"a\""
        );
    }
}
