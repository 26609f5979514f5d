//! The contract between the engine and the places where locks live. Users never import it; authors of back ends do.
//!
//! A store takes **single atomic steps** and posts events. It never waits for another owner, never retries, keeps no
//! deadline of its own: waiting, renewal, deadlines, guards and loss are written once, above it. The engine
//! drives one store or several independent ones with the same code.
//!
//! An implementation is right when it behaves as [`table`] says, which is executable; the contract suite
//! in `fencepost-testkit` checks it, one named test per promise.

mod claim;
mod closing;
mod memory;
mod record;
pub mod table;
mod text;

pub use claim::{Claim, Mode, Place, Turn};
pub use closing::Closing;
pub use memory::Memory;
pub use record::{Deed, Record};
pub use text::{password_from, percent_decoded};

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::foreign;

pub use crate::actor::ActorId;
pub use crate::behalf::{InLine, OnBehalf, Renewed, permit_name};
pub use crate::clock::{Alarm, AlarmId, Clock, Moment};
pub use crate::connect::{Members, Opening, connect, connect_again, connect_async};
pub use crate::error::{StoreError, StoreErrorKind};
pub use crate::name::{LockName, Owner};
pub use crate::state::{Holder, LockState, Waiter, YieldRequest};
pub use crate::token::FencingToken;

use crate::handle::as_engine;

/// What a store can do. Few on purpose: a new ability has to change what the engine does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Whether the engine or the store chooses the tokens of grants.
    pub minting: Minting,
    /// The store keeps a line of waiters and hands over to its head.
    pub queues: bool,
    /// The store keeps no line, but tells whoever listens that a lock was freed: they ask again, in no order.
    pub tells: bool,
    /// A release and the claim that goes with it are one step, also where that claim is in line already.
    pub relays: bool,
    /// The store takes [`Step::AcquireAll`]: one place has all locks.
    pub together: bool,
    /// Whether it keeps [records](Step::Record).
    pub records: bool,
    /// A lock that was granted is still there after the store was stopped and started.
    pub survives_restart: bool,
    /// The shortest lease that makes sense here.
    pub smallest_ttl: Duration,
    /// The longest lease that the store takes.
    pub largest_ttl: Option<Duration>,
    /// How long an answer may take, unless the user says otherwise. `None`: decided from the ttl.
    pub answer_within: Option<Duration>,
}

impl Abilities {
    /// Whoever waits hears from the store, and need not look again and again.
    pub fn wakes(&self) -> bool {
        self.queues || self.tells
    }
}

/// Whether the engine or the store chooses the tokens of grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Minting {
    /// The engine, by [`Proposal::Exactly`]: several nodes that vote have to agree on one token.
    Engine,
    /// The store, by [`Proposal::Next`]. It runs the steps of one owner in the order submitted, also over a reconnect.
    InOrder,
    /// The store, by [`Proposal::Bounded`]. A request may run late, also after the release of its claim, or twice.
    Bounded,
}

impl Minting {
    /// The store decides alone, and mints.
    pub fn by_store(self) -> bool {
        self != Self::Engine
    }
}

/// Which token a grant shall carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proposal {
    /// The store mints: one more than the last, and not below its clock.
    Next,
    /// The store mints. A request brings a grant or a place in line only if its bound is above all that are spent, by such
    /// requests or by releases: else it is a copy, or late, and stale. A bound lies within the window of the store's clock; it
    /// has no influence on the token.
    Bounded(FencingToken),
    /// This one, if it is above the last and within the window of the store's clock.
    Exactly(FencingToken),
}

impl Proposal {
    /// The number that the client chose, if it chose one: a token, or a bound.
    pub fn number(self) -> Option<FencingToken> {
        match self {
            Self::Next => None,
            Self::Bounded(number) | Self::Exactly(number) => Some(number),
        }
    }
}

/// Whether a renewal makes a grant again that is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// Never: a client that has yet to prove that the lease is its own. A token is no secret.
    Never,
    /// If the store has forgotten the lock: it knows of no token, nobody holds the lock and nobody waits for it.
    Forgotten,
    /// If no later token was seen. A grant of the owner under a lower token is put under the renewed one.
    NotLater,
}

/// One atomic step. [`table`] is its definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Take the lock, or join the line. Repeated by the same owner, it finds what that owner has and extends it.
    Acquire {
        /// The claim.
        claim: Arc<Claim>,
        /// Which attempt this is; the store keeps the highest with the place in line.
        attempt: u32,
        /// The token of the grant.
        token: Proposal,
        /// Replace the owner's own lower token by this one: a majority is mine, but under different tokens. A store that mints
        /// leaves it as it is.
        unify: bool,
    },
    /// Take all of these locks, or change nothing: one step where one place has them all.
    AcquireAll {
        /// Claims without a place in line, each of another lock.
        parts: Arc<[Part]>,
    },
    /// Keep the lock for one more ttl. A grant of the same owner under a higher token is not the one that is renewed: others
    /// may have had the lock before it. A reader's claim that finds
    /// its owner's grant to be a writer's makes it a reader's (a *downgrade*) and hands over to the readers that come next;
    /// a writer's claim never makes a reader's grant its own.
    Renew {
        /// The claim.
        claim: Arc<Claim>,
        /// The token of the hold.
        token: FencingToken,
        /// The token for the next in line, if a downgrade lets it in; `None` for a writer's claim.
        pass: Option<Proposal>,
        /// Whether a missing grant is made again.
        repair: Repair,
    },
    /// Give back exactly this token; the claim stays in line.
    GiveBack {
        /// The claim.
        claim: Arc<Claim>,
        /// The attempt that the place in line now stands for.
        attempt: u32,
        /// The token to give back.
        token: FencingToken,
        /// The token for the next in line.
        pass: Proposal,
    },
    /// The end of a claim: frees what it holds, leaves the line, hands over.
    Release {
        /// The claim.
        claim: Arc<Claim>,
        /// The highest number this owner ever proposed, where an acquire or renewal may still be under way: the late one is
        /// refused. The store raises its last token to it; if it [mints by bounds](Proposal::Bounded), this bound is spent.
        raise: Option<FencingToken>,
        /// The token for the next in line.
        pass: Proposal,
        /// Another claim of the same process, which takes part at once: release and acquire in one step, still in the
        /// order of tickets.
        then: Option<Then>,
        /// The owner's value may serve another claim by now, as that of a lease that was made data: nothing is freed that is
        /// newer than the grant under this token, and a place in line is left alone.
        only: Option<FencingToken>,
    },
    /// Throw out whoever holds it; their next renewal is answered with [`Loss::Revoked`].
    Evict {
        /// The lock.
        name: LockName,
        /// Raises the last token above the holder's; the next in line gets the token after it.
        above: Proposal,
    },
    /// Ask whoever holds it to let go; they hear of it with their next renewal. A newer request takes the place of an
    /// older one, and none outlives the grant it was meant for.
    Ask {
        /// The lock.
        name: LockName,
        /// Who asks, and why.
        request: Arc<YieldRequest>,
    },
    /// What the store knows about a lock.
    Inspect {
        /// The lock.
        name: LockName,
    },
    /// Locks that are held, waited for or remembered, in name order.
    List {
        /// What their names start with.
        prefix: Arc<str>,
        /// Only names after this one.
        after: Option<LockName>,
        /// At most so many.
        limit: u32,
        /// Only locks that somebody waits for.
        contended: bool,
    },
    /// Read or write the record beside a lock: bytes that nobody changes whose token is older than one that was seen.
    /// Only where one store decides, and keeps data.
    Record {
        /// The lock.
        name: LockName,
        /// What to do.
        deed: Deed,
    },
}

impl Step {
    /// What the user asked for, for errors.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Acquire { .. } | Self::AcquireAll { .. } | Self::GiveBack { .. } => "acquire",
            Self::Renew { .. } => "renew",
            Self::Release { .. } => "release",
            Self::Evict { .. } => "force_release",
            Self::Ask { .. } => "ask_to_yield",
            Self::Inspect { .. } => "inspect",
            Self::List { .. } => "list",
            Self::Record { deed: Deed::Read, .. } => "read_record",
            Self::Record { .. } => "write_record",
        }
    }

    /// The claim that the step is of; `None` where nobody claims anything, or several are claimed.
    pub fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Acquire { claim, .. }
            | Self::Renew { claim, .. }
            | Self::GiveBack { claim, .. }
            | Self::Release { claim, .. } => Some(claim),
            Self::AcquireAll { .. }
            | Self::Evict { .. }
            | Self::Ask { .. }
            | Self::Inspect { .. }
            | Self::List { .. }
            | Self::Record { .. } => None,
        }
    }

    /// The one lock that the step is about; `None` for a listing, and for several.
    pub fn name(&self) -> Option<&LockName> {
        match self {
            Self::Evict { name, .. } | Self::Ask { name, .. } | Self::Inspect { name } | Self::Record { name, .. } => {
                Some(name)
            }
            other => other.claim().map(|claim| &claim.name),
        }
    }
}

/// One of several claims that are granted together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The claim.
    pub claim: Arc<Claim>,
    /// Its attempt.
    pub attempt: u32,
    /// The token of its grant.
    pub token: Proposal,
}

impl Part {
    /// The same, asked for alone.
    pub fn alone(&self) -> Step {
        let Self { claim, attempt, token } = self.clone();
        Step::Acquire { claim, attempt, token, unify: false }
    }
}

/// Who asks for the lock in the same step that releases it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Then {
    /// The claim.
    pub claim: Arc<Claim>,
    /// Its attempt.
    pub attempt: u32,
}

/// What a step found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// To `Acquire`: the owner has it, under this token, for its whole ttl (and the store keeps it for the delay after).
    Granted {
        /// The token of the grant.
        token: FencingToken,
    },
    /// To `AcquireAll`: each has its own, as to `Acquire`.
    AllGranted {
        /// The tokens of the grants, in the order of the parts.
        tokens: Vec<FencingToken>,
    },
    /// To `AcquireAll`: not all are to be had at once, as far as the store has looked, and nothing was changed. Asking for
    /// each alone tells more.
    NotAll,
    /// To `Acquire`: others have it, or come first. If the claim has a place, it is in line now.
    Held {
        /// Who has it, if somebody has.
        holder: Option<Holder>,
        /// The last token of this lock, so that the next proposal fits at once.
        last: Option<FencingToken>,
        /// Its place in line, if it has one: asked for with this ticket it is the same place again, also if the store
        /// forgot it.
        ticket: Option<FencingToken>,
    },
    /// To `Acquire`: the proposed number does not fit. Nothing was changed.
    Stale {
        /// What the number has to be above: the last token of this lock, or the highest bound that is spent.
        last: Option<FencingToken>,
        /// The store's clock, as a token.
        clock: FencingToken,
    },
    /// To `Renew`: kept for one more ttl.
    Kept,
    /// To `Renew`: kept for one more ttl, and somebody asks for it. Said until the grant ends.
    KeptAndAsked(YieldRequest),
    /// To `Renew`: not the owner's any more.
    Lost(Loss),
    /// To `GiveBack` and `Release`: it was the owner's, and is not any more.
    Freed,
    /// To `GiveBack` and `Release`: it was not the owner's.
    NotHeld,
    /// To `Release` with another claim behind it.
    Relayed {
        /// It was the owner's.
        freed: bool,
        /// What the other claim is answered, as to its own `Acquire`.
        then: Box<Answer>,
    },
    /// To `Evict`: who was thrown out.
    Evicted(Vec<Holder>),
    /// To `Ask`: who was asked.
    Asked(Vec<Holder>),
    /// To `Inspect`.
    State(LockState),
    /// To `List`.
    States(Vec<LockState>),
    /// To `Record`, unless it puts: what is there.
    Record(Option<Record>),
    /// To `Record` that puts: it is there.
    Stored,
    /// To `Record` that seals or puts: a newer token was seen, and nothing was changed.
    Outdated {
        /// The newest token seen.
        seen: FencingToken,
    },
}

/// Why a store does not renew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Another owner has it, or had it since.
    TakenOver,
    /// Thrown out by an operator.
    Revoked,
}

/// Why a store did not answer a step.
///
/// **Outcome unknown**, never "no", except for the kinds that are certain refusals
/// ([`StoreErrorKind::outcome_unknown`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// What kind.
    pub kind: StoreErrorKind,
    /// What happened, and the cure.
    pub message: String,
}

impl Trouble {
    /// Describes trouble.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// What a store says to one claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The answer to a step.
    Answer(Result<Answer, Trouble>),
    /// The lock was handed to this claim, for the length of its place's lease (and the delay after): a vote by push.
    HandedOver {
        /// The token of the grant.
        token: FencingToken,
        /// The attempt that the store had last seen: it dates the grant.
        attempt: u32,
    },
    /// A hint: trying again may pay.
    MayPay,
    /// A hint to a holder, about which nobody has to be told: what keeps its lock may be gone. It asks at once, by a renewal.
    MayBeLost,
}

/// An event with where it came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    /// The store's place among its peers.
    pub node: usize,
    /// Which request of the claim this answers; 0 for what was not asked for.
    pub request: u32,
    /// What was said.
    pub event: Event,
}

/// Where everything that stores say to one claim arrives. Called on the store's thread, or inside `submit`.
pub trait Mailbox: Send + Sync + 'static {
    /// Takes a post. Never blocks.
    fn post(self: Arc<Self>, post: Post);
}

/// Where to send the answer of one step, or the pushes for one claim.
#[derive(Clone)]
pub struct Reply {
    to: Arc<dyn Mailbox>,
    node: usize,
    request: u32,
}

impl Reply {
    /// To this mailbox, in the name of that node, about that request.
    pub fn new(to: Arc<dyn Mailbox>, node: usize, request: u32) -> Self {
        Self { to, node, request }
    }

    /// The one answer of a step.
    pub fn answer(self, answer: Result<Answer, Trouble>) {
        self.push(Event::Answer(answer));
    }

    /// Says something that was not asked for. A panic on the other side ends there: the store's thread goes on.
    pub fn push(&self, event: Event) {
        post(Arc::clone(&self.to), Post { node: self.node, request: self.request, event });
    }

    /// For a store that keeps it for as long as a claim holds: it does not keep the claim.
    pub fn downgrade(&self) -> WeakReply {
        WeakReply { to: Arc::downgrade(&self.to), node: self.node }
    }
}

/// Where to send what was not asked for, as long as its claim is there.
#[derive(Clone)]
pub struct WeakReply {
    to: Weak<dyn Mailbox>,
    node: usize,
}

impl WeakReply {
    /// Says it, unless the claim is gone. A panic on the other side ends there.
    pub fn push(&self, event: Event) {
        if let Some(to) = self.to.upgrade() {
            post(to, Post { node: self.node, request: 0, event });
        }
    }
}

/// On a thread of a store, which neither waits for another store nor ends with a panic.
fn post(to: Arc<dyn Mailbox>, post: Post) {
    if foreign::contain(|| as_engine(|| to.post(post))).is_none() {
        crate::notice!(ERROR, "BUG: what a store said was not taken; the store goes on");
    }
}

impl fmt::Debug for WeakReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakReply").field("node", &self.node).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("node", &self.node).field("request", &self.request).finish_non_exhaustive()
    }
}

/// What a store knows of an answer that it owes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owed {
    /// Nothing: the answer may never come. The engine goes by its own deadlines, and asks again.
    Unknown,
    /// The connection that the step was written to is up and keeps order: the answer comes, or trouble does when the connection
    /// ends. So the engine never repeats the step meanwhile. Until this moment the link is patient; from then on it counts as
    /// silent, unless it was heard again.
    Until(Moment),
}

/// A place where locks live.
///
/// # Behavior
/// - `submit` sends at once and never blocks; each step is answered once, or never if the store cannot know: the
///   engine keeps the deadlines and counts a missing answer as unknown.
/// - Steps of one owner run in the order submitted.
/// - A step whose deadline passed before it was sent need not be sent any more; it is then answered as
///   [`StoreErrorKind::TooSlow`].
/// - Answers may be posted from inside `submit`.
pub trait Store: Send + Sync + 'static {
    /// What this store can do.
    fn abilities(&self) -> Abilities;
    /// How people know it: a file or an address, without credentials.
    fn label(&self) -> String;
    /// Runs one step.
    fn submit(&self, step: Step, deadline: Moment, reply: Reply);
    /// Pushes for this claim go to `reply` until the answer is dropped. Called before the first `Acquire` of a claim
    /// with a place.
    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening;
    /// The store's clock as a token: a guess that saves round trips, never trusted. `None`: not known yet.
    fn clock(&self) -> Option<FencingToken>;
    /// What is known of the answer to a step that was submitted at this moment and is not answered yet. Asked often: must be
    /// quick. A moment that is now or later: what a step submitted now would have to wait.
    fn owed(&self, _submitted: Moment) -> Owed {
        Owed::Unknown
    }
    /// Whether answers can be expected soon: there is a link, and the server is not silent. `None`: the store does not
    /// know. At the end of a connection nobody waits for one that is not live.
    fn is_live(&self) -> Option<bool> {
        None
    }
    /// Ends what is kept for claims to come: leases and sessions that nothing rests on. It is done when `closing` is
    /// dropped. Claims may still be held, and a step that comes later is served like any other.
    fn close(&self, closing: Closing) {
        drop(closing);
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + ?Sized> Store for Arc<S> {
    fn abilities(&self) -> Abilities {
        (**self).abilities()
    }

    fn label(&self) -> String {
        (**self).label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        (**self).submit(step, deadline, reply);
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        (**self).listen(claim, reply)
    }

    fn clock(&self) -> Option<FencingToken> {
        (**self).clock()
    }

    fn owed(&self, submitted: Moment) -> Owed {
        (**self).owed(submitted)
    }

    fn is_live(&self) -> Option<bool> {
        (**self).is_live()
    }

    fn close(&self, closing: Closing) {
        (**self).close(closing);
    }
}

/// Keeps a claim's pushes coming; they end when it is dropped.
pub struct Listening(#[allow(dead_code, reason = "held for its Drop")] Box<dyn Send + Sync>);

impl Listening {
    /// Whatever has to be kept; its `Drop` ends the pushes.
    pub fn new(keep: impl Send + Sync + 'static) -> Self {
        Self(Box::new(keep))
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listening")
    }
}
