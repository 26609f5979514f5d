//! A store between two bad networks: loses, delays and duplicates requests, answers and pushes, on a seed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::store::{
    self, Abilities, Alarm, Claim, Clock, Closing, Event, Listening, Mailbox, Moment, Opening, Owed, Post, Reply, Step,
    Store, StoreError, StoreErrorKind, Trouble,
};
use fencepost_core::{Connect, FencingToken};

use crate::dice::Dice;

/// How often what goes wrong, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A message never arrives.
    pub lose: u32,
    /// An answer or a push arrives twice. Requests do not: a link that keeps order, such as TCP, never repeats one.
    pub duplicate: u32,
    /// A message takes up to [`delay_max`](Faults::delay_max).
    pub delay: u32,
    /// The longest delay.
    pub delay_max: Duration,
    /// Requests that arrive do so in the order sent, as a store that mints its tokens may ask for. Answers and pushes
    /// may overtake each other all the same.
    pub in_order: bool,
    /// Requests arrive at once, all of them.
    pub answers_only: bool,
}

impl Faults {
    /// What the contract of a store holds under, whatever its network: answers come late, twice and in any order, and of a
    /// minority of the nodes many never come. (Requests that are late or lost change what the next one finds.)
    pub fn in_answers(node: usize, nodes: usize) -> Self {
        let minority = nodes.div_ceil(2) - 1;
        Self {
            lose: if node < minority { 300 } else { 0 },
            duplicate: 300,
            delay: 400,
            delay_max: Duration::from_millis(5),
            answers_only: true,
            in_order: false,
        }
    }
}

/// How the link to a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Link {
    /// As good as the faults allow.
    #[default]
    Up,
    /// Everything vanishes without a word: a stopped node, a black hole.
    Silent,
    /// Everything is refused at once: a dead node.
    Refused,
    /// Requests arrive, answers vanish.
    Deaf,
}

/// A store behind a bad network.
#[derive(Clone)]
pub struct Faulty<S> {
    inner: Arc<Inner<S>>,
}

struct Inner<S> {
    store: S,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    dice: Dice,
    faults: Faults,
    link: Link,
    parcels: BTreeMap<(Moment, u64), Parcel>,
    numbers: u64,
    /// How many requests are under way, and when the last of them arrives.
    late_requests: usize,
    last_arrival: Moment,
}

/// A message under way.
enum Parcel {
    Request(Step, Moment, Reply),
    Answer(Reply, Event),
}

impl<S: Store> Faulty<S> {
    /// Puts a bad network before a store. Time comes from the clock, chance from the seed.
    pub fn new(store: S, clock: Clock, seed: u64, faults: Faults) -> Self {
        let (dice, parcels, last_arrival) = (Dice::new(seed), BTreeMap::new(), Moment::from_nanos(0));
        let state = State { dice, faults, link: Link::Up, parcels, numbers: 0, late_requests: 0, last_arrival };
        Self { inner: Arc::new(Inner { store, clock, state: Mutex::new(state) }) }
    }

    /// The store behind.
    pub fn store(&self) -> &S {
        &self.inner.store
    }

    /// Cuts or mends the link.
    pub fn set_link(&self, link: Link) {
        self.inner.state().link = link;
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.inner.state().faults = faults;
    }

    /// How many messages are under way.
    pub fn under_way(&self) -> usize {
        self.inner.state().parcels.len()
    }
}

/// Connects through these stores, each behind a network with [faults in its answers](Faults::in_answers).
pub fn around(open: impl FnOnce(Clock) -> Opened + Send + 'static) -> Connect {
    store::connect_async(move |Opening { clock, .. }| {
        Box::pin(async move {
            let stores = open(clock.clone()).await?;
            let count = stores.len();
            let behind = |(node, store)| {
                let faulty = Faulty::new(store, clock.clone(), node as u64, Faults::in_answers(node, count));
                Arc::new(faulty) as Arc<dyn Store>
            };
            Ok(stores.into_iter().enumerate().map(behind).collect::<Vec<_>>())
        })
    })
}

/// Stores, once they are open.
pub type Opened = Pin<Box<dyn Future<Output = Result<Vec<Arc<dyn Store>>, StoreError>> + Send>>;

impl<S: Store> Inner<S> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides the fate of a message: for each copy that arrives, how late.
    fn fate(&self, may_repeat: bool) -> Vec<Duration> {
        let mut state = self.state();
        let faults = state.faults;
        if state.dice.per_mille(faults.lose) {
            return Vec::new();
        }
        let copies = if may_repeat && state.dice.per_mille(faults.duplicate) { 2 } else { 1 };
        let late = |dice: &mut Dice| {
            let nanos = u64::try_from(faults.delay_max.as_nanos()).unwrap_or(u64::MAX).max(1);
            if dice.per_mille(faults.delay) { Duration::from_nanos(dice.below(nanos)) } else { Duration::ZERO }
        };
        (0..copies).map(|_| late(&mut state.dice)).collect()
    }

    /// How late a request arrives that may not overtake those before it.
    fn behind_others(&self, late: Duration) -> Duration {
        let mut state = self.state();
        let (now, mut late) = (self.clock.now(), late);
        if state.faults.in_order && state.late_requests > 0 {
            let after = Duration::from_nanos(1);
            late = late.max(state.last_arrival.since(now) + after);
        }
        if !late.is_zero() {
            state.late_requests += 1;
            state.last_arrival = state.last_arrival.max(now.plus(late));
        }
        late
    }

    fn dispatch(self: &Arc<Self>, parcels: impl Iterator<Item = (Duration, Parcel)>) {
        for (late, parcel) in parcels {
            if late.is_zero() {
                self.deliver(parcel);
                continue;
            }
            let at = self.clock.now().plus(late);
            let mut state = self.state();
            state.numbers += 1;
            let number = state.numbers;
            state.parcels.insert((at, number), parcel);
            drop(state);
            let target: Arc<dyn Alarm> = self.clone();
            self.clock.alarm(at, Arc::downgrade(&target));
        }
    }

    fn deliver(self: &Arc<Self>, parcel: Parcel) {
        match parcel {
            Parcel::Answer(reply, event) => reply.push(event),
            Parcel::Request(step, deadline, reply) => {
                let way_back: Arc<dyn Mailbox> = Arc::new(WayBack { inner: self.clone(), reply });
                self.store.submit(step, deadline, Reply::new(way_back, 0, 0));
            }
        }
    }

    fn answer(self: &Arc<Self>, reply: &Reply, event: &Event) {
        if matches!(self.state().link, Link::Silent | Link::Deaf) {
            return;
        }
        let fate = self.fate(true);
        self.dispatch(fate.into_iter().map(|late| (late, Parcel::Answer(reply.clone(), event.clone()))));
    }
}

impl<S: Store> Alarm for Inner<S> {
    fn ring(self: Arc<Self>) {
        loop {
            let mut state = self.state();
            let now = self.clock.now();
            let Some(first) = state.parcels.first_entry().filter(|first| first.key().0 <= now) else { return };
            let parcel = first.remove();
            drop(state);
            let is_request = matches!(parcel, Parcel::Request(..));
            self.deliver(parcel);
            self.state().late_requests -= usize::from(is_request);
        }
    }
}

/// Where the store's own answers pass on their way to the claim.
struct WayBack<S> {
    inner: Arc<Inner<S>>,
    reply: Reply,
}

impl<S: Store> Mailbox for WayBack<S> {
    fn post(self: Arc<Self>, post: Post) {
        self.inner.answer(&self.reply, &post.event);
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Faulty<S> {
    fn abilities(&self) -> Abilities {
        self.inner.store.abilities()
    }

    fn label(&self) -> String {
        self.inner.store.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        let link = self.inner.state().link;
        match link {
            Link::Silent => {}
            Link::Refused => {
                reply.answer(Err(Trouble::new(StoreErrorKind::Unreachable, "connection refused")));
            }
            Link::Up | Link::Deaf if self.inner.state().faults.answers_only => {
                self.inner.deliver(Parcel::Request(step, deadline, reply));
            }
            Link::Up | Link::Deaf => {
                let late = self.inner.fate(false).into_iter().map(|late| self.inner.behind_others(late));
                self.inner.dispatch(late.map(|late| (late, Parcel::Request(step.clone(), deadline, reply.clone()))));
            }
        }
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        let way_back: Arc<dyn Mailbox> = Arc::new(WayBack { inner: self.inner.clone(), reply });
        self.inner.store.listen(claim, Reply::new(way_back, 0, 0))
    }

    fn clock(&self) -> Option<FencingToken> {
        self.inner.store.clock()
    }

    /// What is lost here nobody hears of.
    fn owed(&self, _submitted: Moment) -> Owed {
        Owed::Unknown
    }

    fn is_live(&self) -> Option<bool> {
        self.inner.store.is_live()
    }

    fn close(&self, closing: Closing) {
        self.inner.store.close(closing);
    }
}

impl<S> std::fmt::Debug for Faulty<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faulty(..)")
    }
}
