//! The engine: drives one store or several independent ones through the same code.
//!
//! Reading order: [`electorate`] says who has to agree, [`ballot`] counts votes; [`pursuit`] gets a lock, [`hold`] keeps it, [`farewell`] gives it up: three
//! state machines that decide and do nothing themselves; [`course`] runs them, from the first request of a claim to its
//! last; [`line`] lets one claim per lock and process contend; [`together`] begins several claims by one step; [`stays`]
//! knows what each actor has; [`prospect`] says whether waiting can help; [`inquiry`] asks all nodes one question;
//! [`circles`] looks for deadlocks; [`drain`] ends a connection.
//!
//! There is no async runtime and no task in here. Stores post answers and the clock rings alarms, on their own threads;
//! each moves the machine of its claim one step. So renewals and releases go on while the user's runtime is blocked or
//! gone, and a test that turns a virtual clock runs the very same code.

mod ballot;
mod chance;
mod circles;
mod course;
mod drain;
mod electorate;
mod farewell;
mod hold;
mod inquiry;
mod line;
mod prospect;
mod pursuit;
mod stays;
mod terms;
mod together;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::error::{NodeVote, StoreError, StoreErrorKind, Vote};
use crate::event::{EventKind, Herald};
use crate::foreign;
use crate::name::Owner;
use crate::store::table::WINDOW;
use crate::store::{Abilities, Answer, Claim, Members, Minting, Owed, Proposal, Step, Store, Trouble};
use crate::token::FencingToken;

pub(crate) use chance::Chance;
pub(crate) use circles::acquired;
pub(crate) use course::{Course, Takeover};
pub(crate) use drain::Errand;
use drain::Tally;
pub(crate) use electorate::Electorate;
use line::Line;
pub(crate) use stays::{Entry, Stay, Stays};
pub(crate) use terms::{Patience, Terms};
pub(crate) use together::begin_all;

/// The longest lease, whatever the store takes: longer work is the watchdog's business.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a place in line is kept without word from its owner.
const WAITER_LEASE_MAX: Duration = Duration::from_secs(3);

/// The rounds of an acquisition of several locks that waits for nobody: a look, another at all of them, and the claims.
const ROUNDS: u32 = 3;

/// All nodes, and what the claims on them share.
pub(crate) struct Quorum {
    pub(crate) nodes: Vec<Arc<dyn Store>>,
    pub(crate) electorate: Electorate,
    pub(crate) clock: Clock,
    pub(crate) herald: Herald,
    pub(crate) abilities: Abilities,
    answer_within: Option<Duration>,
    line: Line,
    /// Claims for others, who wait in the store's line themselves.
    guests: Line,
    /// What actors have, that they can enter again.
    pub(crate) stays: Arc<Stays>,
    registry: Mutex<Registry>,
    /// Releases that no claim waits for.
    errands: Tally,
    /// The last answer of each node was that it cannot be reached.
    failing: Vec<AtomicBool>,
    /// For those who look for deadlocks.
    picture: Mutex<circles::Picture>,
    chance: Chance,
}

/// Every claim that is under way. It keeps them alive: a release goes on after its guard is gone.
#[derive(Default)]
struct Registry {
    closed: bool,
    claims: u64,
    courses: HashMap<u64, Arc<Course>>,
    wakers: Vec<std::task::Waker>,
}

impl Quorum {
    pub(crate) fn new(
        Members { nodes, sets }: Members,
        clock: Clock,
        herald: Herald,
        answer_within: Option<Duration>,
        chance: Chance,
    ) -> Result<Self, StoreError> {
        let abilities = combined(&nodes)?;
        let electorate = match sets.is_empty() {
            true => Electorate::of(nodes.len()),
            false => Electorate::of_sets(nodes.len(), sets)?,
        };
        let (line, guests, stays, registry) = (Line::default(), Line::default(), Arc::default(), Mutex::default());
        let (picture, errands) = (Mutex::default(), Tally::default());
        let failing = nodes.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self {
            nodes,
            electorate,
            clock,
            herald,
            abilities,
            answer_within,
            line,
            guests,
            stays,
            registry,
            errands,
            failing,
            picture,
            chance,
        })
    }

    /// A new owner.
    pub(crate) fn new_owner(&self) -> Result<Owner, StoreError> {
        self.chance.owner().map_err(|error| no_randomness("acquire", error))
    }

    /// Some number below the limit.
    pub(crate) fn some_number(&self, limit: u32) -> u32 {
        u32::try_from(self.chance.number(u64::from(limit))).unwrap_or_default()
    }

    /// A request to one node may take so long.
    pub(crate) fn answer_within(&self, ttl: Duration) -> Duration {
        let default = || match self.nodes.len() {
            1 => (ttl / 2).min(Duration::from_secs(5)),
            _ => (ttl / 20).min(Duration::from_millis(50)),
        };
        self.answer_within.or(self.abilities.answer_within).unwrap_or_else(default)
    }

    /// All requests of an acquisition that waits for nobody may take so long. Nodes that vote have little time for each, unless
    /// a majority of them has a queue.
    pub(crate) fn answers_within(&self, ttl: Duration) -> Duration {
        let one = self.majority_answers_within(ttl);
        if self.nodes.len() == 1 { one } else { one * ROUNDS }
    }

    /// One request that is sent to all nodes now may take so long: until too few are left that are not silent.
    pub(crate) fn majority_answers_within(&self, ttl: Duration) -> Duration {
        let now = self.clock.now();
        let moment = self.electorate.contents(|node| Some(self.silent_at(node, now, ttl)));
        moment.map_or(Duration::ZERO, |moment| moment.since(now))
    }

    /// When a node counts as silent that was asked at this moment and has not answered: the usual time for an answer, longer
    /// while its link is heard. What the user said is a hard limit; nothing is waited for longer than half a ttl.
    fn silent_at(&self, node: usize, asked: Moment, ttl: Duration) -> Moment {
        let usual = asked.plus(self.answer_within(ttl));
        self.at_work_until(node, asked, ttl).map_or(usual, |until| usual.max(until))
    }

    /// Until when such a node is believed to be at work on its queue, if its link can tell.
    fn at_work_until(&self, node: usize, asked: Moment, ttl: Duration) -> Option<Moment> {
        match self.nodes[node].owed(asked) {
            Owed::Until(moment) if self.answer_within.is_none() => Some(moment.min(asked.plus(ttl / 2))),
            Owed::Until(_) | Owed::Unknown => None,
        }
    }

    /// Until when a step that is submitted now may be sent: from then on nobody waits for its answer. A link that is at work on
    /// its queue may keep it for as long as the engine is patient.
    fn send_until(&self, node: usize, now: Moment, ttl: Duration) -> Moment {
        let usual = now.plus(self.answer_within(ttl));
        match self.at_work_until(node, now, ttl) {
            Some(_) => usual.max(now.plus(ttl / 2)),
            None => usual,
        }
    }

    /// How long a waiter's place is kept.
    pub(crate) fn waiter_lease(&self, ttl: Duration) -> Duration {
        ttl.min(WAITER_LEASE_MAX)
    }

    /// The cluster's clock as a token: the median of what the nodes say, else our own. A guess; safety never uses it.
    pub(crate) fn clock_guess(&self) -> FencingToken {
        let mut clocks: Vec<FencingToken> = self.nodes.iter().filter_map(|node| node.clock()).collect();
        clocks.sort_unstable();
        clocks.get(clocks.len() / 2).copied().unwrap_or_else(|| FencingToken::at(self.clock.wall()))
    }

    /// The ticket of a claim that arrives now. One store gives it itself, in the order in which claims reach it.
    pub(crate) fn ticket(&self) -> Option<FencingToken> {
        (self.nodes.len() > 1).then(|| self.clock_guess())
    }

    /// What the nodes should accept: above what was seen, and a token in the middle of their window.
    fn proposal(&self, above: Option<FencingToken>) -> Proposal {
        let at_least = |guess: FencingToken| above.map_or(guess, |above| guess.max(above.next()));
        match self.abilities.minting {
            Minting::InOrder => Proposal::Next,
            Minting::Bounded => Proposal::Bounded(at_least(self.clock_guess())),
            Minting::Engine => Proposal::Exactly(at_least(self.clock_guess().plus(WINDOW / 2))),
        }
    }

    fn node_vote(&self, node: usize, latency: Duration, vote: Vote) -> NodeVote {
        NodeVote::new(self.nodes[node].label(), latency, vote)
    }

    /// Votes in the order of the nodes, with their names.
    pub(crate) fn node_votes(&self, votes: &[(Duration, Vote)]) -> Vec<NodeVote> {
        let named = votes.iter().enumerate();
        named.map(|(node, (latency, vote))| self.node_vote(node, *latency, vote.clone())).collect()
    }

    /// One error for what several nodes said.
    fn error(&self, operation: &'static str, troubles: Vec<(usize, Duration, Trouble)>) -> StoreError {
        let worst = troubles.iter().map(|(_, _, trouble)| trouble).min_by_key(|trouble| rank(&trouble.kind));
        let Some(worst) = worst.cloned() else {
            return StoreError::no_answer(operation);
        };
        let votes: Vec<NodeVote> = troubles
            .into_iter()
            .map(|(node, latency, trouble)| self.node_vote(node, latency, Vote::Failed(trouble.kind)))
            .collect();
        let message = match self.nodes.len() {
            1 => worst.message,
            all => format!("{} of {all} nodes did not vote{}; {}", votes.len(), tally(&votes), worst.message),
        };
        StoreError { kind: worst.kind, operation, message, votes }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a new claim; `None`: shutting down.
    fn enrol(&self, make: impl FnOnce(u64) -> Arc<Course>) -> Option<Arc<Course>> {
        let mut registry = self.registry();
        if registry.closed {
            return None;
        }
        registry.claims += 1;
        let course = make(registry.claims);
        registry.courses.insert(course.id, course.clone());
        Some(course)
    }

    fn strike_off(&self, id: u64) {
        self.registry().courses.remove(&id);
    }

    /// A release got further: who waits for the end of all of them looks again.
    fn tell_of_parting(&self) {
        let wakers = std::mem::take(&mut self.registry().wakers);
        foreign::wake(wakers);
    }

    /// Takes no new claims and ends all waiting.
    pub(crate) fn close(&self) {
        let courses: Vec<Arc<Course>> = {
            let mut registry = self.registry();
            registry.closed = true;
            registry.courses.values().cloned().collect()
        };
        courses.iter().for_each(Course::stop_waiting);
    }

    /// The names whose release nobody has confirmed yet. The waker is called when one of them is done.
    pub(crate) fn leaving(&self, waker: &std::task::Waker) -> Vec<String> {
        let waker = waker.clone();
        let courses: Vec<Arc<Course>> = {
            let mut registry = self.registry();
            registry.wakers.push(waker);
            registry.courses.values().cloned().collect()
        };
        courses.iter().filter(|course| course.is_leaving()).map(|course| course.claim.name.to_string()).collect()
    }
}

fn no_randomness(operation: &'static str, error: getrandom::Error) -> StoreError {
    let message = format!("the operating system gave no random bytes: {error}");
    StoreError::new(StoreErrorKind::Unexpected, operation, message)
}

/// What all nodes together can do.
fn combined(nodes: &[Arc<dyn Store>]) -> Result<Abilities, StoreError> {
    let wrong = |message: &str| StoreError::new(StoreErrorKind::Misconfigured, "connect", message);
    let each: Vec<Abilities> = nodes.iter().map(|node| node.abilities()).collect();
    let Some(first) = each.first().cloned() else { return Err(wrong("a connection needs at least one node")) };
    if each.len() > 1 && each.iter().any(|node| node.minting.by_store()) {
        return Err(wrong("stores that mint their own tokens cannot vote together: their tokens are not ordered"));
    }
    Ok(each.into_iter().fold(first, |all, node| Abilities {
        minting: all.minting,
        queues: all.queues && node.queues,
        tells: all.tells && node.tells,
        relays: all.relays && node.relays,
        together: all.together && node.together,
        records: all.records && node.records,
        survives_restart: all.survives_restart && node.survives_restart,
        smallest_ttl: all.smallest_ttl.max(node.smallest_ttl),
        largest_ttl: [all.largest_ttl, node.largest_ttl].into_iter().flatten().min(),
        answer_within: all.answer_within.max(node.answer_within),
    }))
}

/// Which of several troubles to name first: what a person has to mend comes before what may pass.
fn rank(kind: &StoreErrorKind) -> u8 {
    match kind {
        StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => 0,
        StoreErrorKind::Denied => 1,
        StoreErrorKind::OtherKind => 2,
        StoreErrorKind::Unexpected => 3,
        StoreErrorKind::ClockOff { .. } => 4,
        StoreErrorKind::Quarantined { .. } => 5,
        StoreErrorKind::Unreachable => 6,
        StoreErrorKind::TooSlow => 7,
    }
}

/// How many nodes had which trouble, where it is not the same everywhere: a node may be up and not vote all the same.
fn tally(votes: &[NodeVote]) -> String {
    let mut counts: BTreeMap<u8, (&str, usize)> = BTreeMap::new();
    for vote in votes {
        let Vote::Failed(kind) = &vote.vote else { continue };
        counts.entry(rank(kind)).or_insert((in_a_word(kind), 0)).1 += 1;
    }
    if counts.len() < 2 {
        return String::new();
    }
    let each: Vec<String> = counts.values().map(|(word, count)| format!("{count} {word}")).collect();
    format!(" ({})", each.join(", "))
}

fn in_a_word(kind: &StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => "misconfigured",
        StoreErrorKind::Denied => "denied access",
        StoreErrorKind::OtherKind => "with something else under that name",
        StoreErrorKind::Unexpected => "with an unexpected answer",
        StoreErrorKind::ClockOff { .. } => "with another time",
        StoreErrorKind::Quarantined { .. } => "up but quarantined",
        StoreErrorKind::Unreachable => "unreachable",
        StoreErrorKind::TooSlow => "too slow",
    }
}

/// What a machine wants done. Machines decide; the course does, outside its lock.
enum Effect {
    Send {
        node: usize,
        request: u32,
        step: Step,
        deadline: Moment,
    },
    Tell(EventKind),
    /// What a node said to the claim that went with our release.
    PassOn {
        node: usize,
        answer: Result<Answer, Trouble>,
    },
}

/// How many sendings a claim remembers. A waiter asks three times per lease, so far fewer would do.
const SENT_MAX: usize = 64;

/// The requests of one claim: their numbers and when each left.
#[derive(Default)]
struct Requests {
    last: u32,
    sent: VecDeque<(u32, Moment)>,
}

/// Everything a machine sees during one turn.
struct Scene<'a> {
    quorum: &'a Quorum,
    claim: &'a Arc<Claim>,
    now: Moment,
    requests: &'a mut Requests,
    effects: &'a mut Vec<Effect>,
}

impl Scene<'_> {
    /// A new request number, dated now: before it leaves.
    fn new_request(&mut self) -> u32 {
        self.requests.last += 1;
        if self.requests.sent.len() == SENT_MAX {
            self.requests.sent.pop_front();
        }
        self.requests.sent.push_back((self.requests.last, self.now));
        self.requests.last
    }

    fn sent_at(&self, request: u32) -> Option<Moment> {
        let found = self.requests.sent.iter().find(|(number, _)| *number == request);
        found.map(|(_, at)| *at)
    }

    fn latency(&self, request: u32) -> Duration {
        self.sent_at(request).map(|sent| self.now.since(sent)).unwrap_or_default()
    }

    /// When a node counts as silent that was sent this request.
    fn silent_at(&self, node: usize, request: u32) -> Moment {
        self.quorum.silent_at(node, self.sent_at(request).unwrap_or(self.now), self.claim.ttl)
    }

    /// Whether a node certainly answers this request, or says that its connection ended: asking again meanwhile would only
    /// make its queue longer.
    fn owes(&self, node: usize, request: u32) -> bool {
        self.sent_at(request).is_some_and(|asked| matches!(self.quorum.nodes[node].owed(asked), Owed::Until(_)))
    }

    fn send(&mut self, node: usize, request: u32, step: Step) {
        let deadline = self.quorum.send_until(node, self.now, self.claim.ttl);
        self.effects.push(Effect::Send { node, request, step, deadline });
    }

    fn tell(&mut self, kind: EventKind) {
        self.effects.push(Effect::Tell(kind));
    }

    fn nodes(&self) -> usize {
        self.quorum.nodes.len()
    }

    fn electorate(&self) -> &Electorate {
        &self.quorum.electorate
    }
}

/// The margin before loss, in proportion for a grant that is shorter than the ttl: a hand-over.
fn margin_of(life: Duration, margin: Duration, ttl: Duration) -> Duration {
    if life >= ttl { margin } else { margin.mul_f64(life.as_secs_f64() / ttl.as_secs_f64()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(kind: StoreErrorKind) -> NodeVote {
        NodeVote::new("a node".into(), Duration::ZERO, Vote::Failed(kind))
    }

    #[test]
    fn nodes_that_are_up_are_told_from_those_that_are_not() {
        let quarantined = StoreErrorKind::Quarantined { left: Duration::from_secs(9) };
        let kinds =
            [StoreErrorKind::Unreachable, quarantined.clone(), StoreErrorKind::Unreachable, quarantined.clone()];
        let votes: Vec<NodeVote> = kinds.into_iter().map(vote).collect();
        assert_eq!(tally(&votes), " (2 up but quarantined, 2 unreachable)");
        assert_eq!(tally(&[vote(quarantined.clone()), vote(quarantined)]), "", "the reason that follows says it");
    }
}
