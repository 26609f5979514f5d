//! What can go wrong with a deployment, found by looking at it: what an examination says, in one form for all stores.
//!
//! Most locks fail where they are deployed: a replica counted as a master, eviction, clocks apart, a ttl shorter than the
//! way to the server. Each back end looks for what can go wrong there, and changes nothing.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use crate::store::{
    Answer, Claim, Clock, Event, FencingToken, LockName, Mailbox, Minting, Mode, Owner, Post, Proposal, Repair, Reply,
    Step, Store, StoreError, StoreErrorKind, Trouble, Turn, table,
};

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Good to know.
    Notice,
    /// It will hurt one day.
    Warning,
    /// Locks do not hold here, or cannot be taken.
    Error,
}

impl Severity {
    /// As a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// Which, for programs: it never changes its meaning.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Where: a node, a file, this machine.
    pub place: String,
    /// What was seen.
    pub evidence: String,
    /// What to do.
    pub cure: String,
}

/// Something that was measured or read, good or bad.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fact {
    /// Where.
    pub place: String,
    /// What.
    pub what: &'static str,
    /// Its value, for people.
    pub value: String,
}

/// What an examination found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Whom the locks exclude: who shares what.
    pub scope: String,
    /// What was measured.
    pub facts: Vec<Fact>,
    /// What is wrong, in the order in which it was looked for.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Of locks that exclude those that `scope` says.
    pub fn new(scope: impl Into<String>) -> Self {
        Self { scope: scope.into(), ..Self::default() }
    }

    /// The worst of it.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// How many findings are so bad.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Notes a value.
    pub fn fact(&mut self, place: &str, what: &'static str, value: impl Into<String>) {
        self.facts.push(Fact { place: place.to_owned(), what, value: value.into() });
    }

    /// Notes what is wrong.
    pub fn find(
        &mut self,
        severity: Severity,
        code: &'static str,
        place: &str,
        evidence: impl Into<String>,
        cure: impl Into<String>,
    ) {
        let (place, evidence, cure) = (place.to_owned(), evidence.into(), cure.into());
        self.findings.push(Finding { code, severity, place, evidence, cure });
    }

    /// Notes that a server does not let us look at it.
    pub fn judge_refusal(&mut self, place: &str, trouble: Trouble) {
        self.judge_missing([(place.to_owned(), trouble)], false);
    }

    /// Notes which servers do not let us look at them; locks may be taken all the same if the others `suffice`.
    pub fn judge_missing(&mut self, missing: impl IntoIterator<Item = (String, Trouble)>, suffice: bool) {
        let severity = if suffice { Severity::Warning } else { Severity::Error };
        for (place, trouble) in missing {
            let (code, cure) = match trouble.kind {
                StoreErrorKind::Denied => ("denied", "give user and password that the server knows"),
                StoreErrorKind::Misconfigured => ("misconfigured", "correct the URL"),
                StoreErrorKind::TooSlow => ("slow", "see what keeps it busy, and what is between us"),
                _ if suffice => ("unreachable", "start it again: until then the others bear one loss less"),
                _ => ("unreachable", "see that it runs, and that nothing between us refuses the connection"),
            };
            self.find(severity, code, &place, trouble.message, cure);
        }
    }

    /// Notes that a server is nearly full of connections.
    pub fn judge_connections(&mut self, place: &str, taken: u64, most: u64, setting: &str) {
        if most > 0 && taken.saturating_mul(10) > most.saturating_mul(9) {
            let evidence = format!("{taken} of {most} connections are taken");
            self.find(Severity::Warning, "connections", place, evidence, format!("raise {setting}"));
        }
    }

    /// Notes what a trial met.
    pub fn judge_trial(&mut self, place: &str, trial: Result<(), Trouble>) {
        let Err(Trouble { kind, message }) = trial else { return };
        let (severity, code, cure) = match &kind {
            StoreErrorKind::Unreachable => {
                (Severity::Error, "unreachable", "see that it runs and that we may reach it")
            }
            StoreErrorKind::TooSlow => (Severity::Error, "slow", "see what keeps it busy, or choose a longer ttl"),
            StoreErrorKind::Denied => (Severity::Error, "rights", "give its user what is missing"),
            StoreErrorKind::ClockOff { .. } => {
                (Severity::Error, "clock", "let both follow the same time source (chrony, ntpd)")
            }
            StoreErrorKind::Quarantined { .. } => {
                (Severity::Warning, "probation", "wait; or `fencepost init`, if no lock is held anywhere")
            }
            StoreErrorKind::Misconfigured => (Severity::Error, "misconfigured", "correct what it names"),
            _ => (Severity::Error, "unexpected", "find out what answers there"),
        };
        self.find(severity, code, place, format!("a lock could not be taken, renewed and released: {message}"), cure);
    }

    /// Opens the store and [tries it out](try_out), unless something is so wrong that it would only be said once more.
    pub fn judge_use<S: Store>(
        &mut self,
        place: &str,
        ttl: Duration,
        open: impl FnOnce(Clock) -> Result<S, StoreError>,
    ) {
        if self.worst() == Some(Severity::Error) {
            return;
        }
        let clock = Clock::system().map_err(|error| Trouble::new(StoreErrorKind::Unexpected, error.to_string()));
        let trial = clock.and_then(|clock| {
            let store = open(clock.clone()).map_err(|error| Trouble::new(error.kind, error.message))?;
            try_out(&store, &clock, ttl)
        });
        self.judge_trial(place, trial);
    }

    /// Judges how long a server takes to answer against what one request may take. `samples`: some round trips.
    pub fn judge_latency(&mut self, place: &str, mut samples: Vec<Duration>, allowed: Duration, ttl: Duration) {
        let count = samples.len();
        if count == 0 {
            return;
        }
        samples.sort_unstable();
        // The nearest rank: of fewer than a hundred it is the worst.
        let rank = |percent: usize| samples[(count * percent).div_ceil(100) - 1];
        let (median, high) = (rank(50), rank(99));
        let name = if count < 100 { "worst" } else { "p99" };
        let seen = format!("p50 {}, {name} {} of {count}", shown(median), shown(high));
        self.fact(place, "round trip", seen.clone());
        let severity = match (median > allowed, high > allowed) {
            (true, _) => Severity::Error,
            (false, true) => Severity::Warning,
            (false, false) => return,
        };
        let evidence = format!("{seen}; with a ttl of {} an answer may take {}", shown(ttl), shown(allowed));
        let cure =
            "choose a longer ttl, say with answer_within how long an answer may take, or come closer to the server";
        self.find(severity, "slow", place, evidence, cure);
    }

    /// Judges how far a server's clock is ahead of ours, in milliseconds; the reading took `round_trip`.
    pub fn judge_clock(&mut self, place: &str, ahead_ms: i64, round_trip: Duration) {
        self.fact(place, "clock", format!("{ahead_ms:+} ms from ours"));
        let off = Duration::from_millis(ahead_ms.unsigned_abs());
        let apart = off.saturating_sub(round_trip);
        let severity = match apart {
            _ if apart > table::WINDOW => Severity::Error,
            _ if apart > CLOCKS_APART => Severity::Warning,
            _ => return,
        };
        let way = if ahead_ms > 0 { "ahead of" } else { "behind" };
        let evidence = format!("its clock is {} {way} ours", shown(off));
        let cure = "let both follow the same time source (chrony, ntpd), and find out which of them is wrong";
        self.find(severity, "clock", place, evidence, cure);
    }
}

/// Clocks that are further apart than this are looked after by nobody.
const CLOCKS_APART: Duration = Duration::from_secs(1);

/// How long one store, or a majority behind it, may take to answer with this ttl if nothing else is said.
pub fn answer_within(ttl: Duration) -> Duration {
    (ttl / 2).min(Duration::from_secs(5))
}

/// Whether these round trips tell enough: a hundred, or fewer where each takes long.
pub fn is_enough(round_trips: &[Duration]) -> bool {
    const LONG: Duration = Duration::from_secs(2);
    round_trips.len() >= 100 || (round_trips.len() >= 10 && round_trips.iter().sum::<Duration>() >= LONG)
}

/// Looks on a thread of its own, where a runtime may be started: whoever calls may be on one.
///
/// # Errors
/// What `look` met.
pub fn apart<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let gone = |_| StoreError::new(StoreErrorKind::Unexpected, "examine", "the thread that looked ended");
    thread::spawn(look).join().map_err(gone)?
}

/// Takes a lock of a random name, renews it and releases it, as any client would: what a store lets us do is seen by
/// doing it. No hold is left behind, whatever the answers are; the lock's last token stays for as long as that of any lock
/// that nobody uses.
///
/// # Errors
/// What the first step that failed met.
pub fn try_out(store: &dyn Store, clock: &Clock, ttl: Duration) -> Result<(), Trouble> {
    try_out_at(&trial_name()?, store, clock, ttl)
}

/// A name that nobody else has.
///
/// # Errors
/// If the system has no random numbers.
pub fn trial_name() -> Result<LockName, Trouble> {
    let random = Owner::random().map_err(|error| Trouble::new(StoreErrorKind::Unexpected, error.to_string()))?;
    Ok(LockName::new(format!("fencepost-doctor-{}", &random.expose()[..12])).expect("BUG: a plain name"))
}

/// The same as [`try_out`] with a lock of this name.
///
/// # Errors
/// What the first step that failed met.
pub fn try_out_at(name: &LockName, store: &dyn Store, clock: &Clock, ttl: Duration) -> Result<(), Trouble> {
    let random = Owner::random().map_err(|error| Trouble::new(StoreErrorKind::Unexpected, error.to_string()))?;
    let name = name.clone();
    let ttl = ttl.max(store.abilities().smallest_ttl).min(store.abilities().largest_ttl.unwrap_or(ttl));
    let (turn, actor, mode) = (Turn::AfterOthers, None, Mode::Exclusive);
    let (label, delay) = (Arc::from("fencepost doctor"), Duration::ZERO);
    let claim = Arc::new(Claim { name, owner: random, label, mode, ttl, turn, fenced: true, actor, delay });
    let propose = |number: FencingToken| match store.abilities().minting {
        Minting::InOrder => Proposal::Next,
        Minting::Bounded => Proposal::Bounded(number),
        Minting::Engine => Proposal::Exactly(number),
    };
    let take = |token| Step::Acquire { claim: claim.clone(), attempt: 1, token: propose(token), unify: false };
    let guess = store.clock().unwrap_or_else(|| FencingToken::at(clock.wall()));
    let taken = match ask(store, clock, take(guess)) {
        // It says what fits; its clock goes on meanwhile.
        Ok(Answer::Stale { clock: theirs, .. }) => ask(store, clock, take(theirs.plus(table::WINDOW / 2))),
        other => other,
    };
    let token = match taken {
        Ok(Answer::Granted { token }) => Ok(token),
        Ok(other) => Err(Trouble::new(StoreErrorKind::Unexpected, format!("a lock nobody has was answered {other:?}"))),
        Err(trouble) => Err(trouble),
    };
    let kept = token.clone().and_then(|token| {
        ask(store, clock, Step::Renew { claim: claim.clone(), token, pass: None, repair: Repair::Never })
    });
    let last = token.as_ref().map_or(guess, |token| *token);
    let raise = token.is_err().then_some(last).filter(|_| store.abilities().minting != Minting::InOrder);
    let freed = ask(
        store,
        clock,
        Step::Release { claim: claim.clone(), raise, pass: propose(last.next()), then: None, only: None },
    );
    token?;
    kept?;
    freed.map(drop)
}

/// How long one step of a trial may take.
const TRIAL_WITHIN: Duration = Duration::from_secs(5);

fn ask(store: &dyn Store, clock: &Clock, step: Step) -> Result<Answer, Trouble> {
    let (sender, receiver) = mpsc::channel();
    store.submit(step, clock.now().plus(TRIAL_WITHIN), Reply::new(Arc::new(Inbox(Mutex::new(sender))), 0, 1));
    let silence = || Trouble::new(StoreErrorKind::TooSlow, format!("no answer within {}", shown(TRIAL_WITHIN)));
    receiver.recv_timeout(TRIAL_WITHIN).unwrap_or_else(|_| Err(silence()))
}

/// Hands answers on to whoever waits for them.
struct Inbox(Mutex<mpsc::Sender<Result<Answer, Trouble>>>);

impl Mailbox for Inbox {
    fn post(self: Arc<Self>, post: Post) {
        if let Event::Answer(answer) = post.event {
            // Who has given up does not listen any more.
            let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(answer);
        }
    }
}

/// A span, as people read it.
pub fn shown(span: Duration) -> String {
    let rounded = match span {
        _ if span >= Duration::from_secs(10) => Duration::from_secs(span.as_secs()),
        _ if span >= Duration::from_millis(10) => Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(0)),
        _ => Duration::from_micros(u64::try_from(span.as_micros()).unwrap_or(0)),
    };
    format!("{rounded:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn judged(samples: &[Duration]) -> Option<Severity> {
        let mut report = Report::new("here");
        report.judge_latency("a", samples.to_vec(), 50 * MS, 1000 * MS);
        report.worst()
    }

    #[test]
    fn a_slow_server_is_an_error_and_one_that_is_slow_at_times_a_warning() {
        assert_eq!(judged(&[MS; 100]), None);
        assert_eq!(judged(&[60 * MS; 100]), Some(Severity::Error));
        assert_eq!(judged(&[vec![MS; 90], vec![60 * MS; 10]].concat()), Some(Severity::Warning));
        assert_eq!(judged(&[]), None);
        // One in a hundred may be slow, one of fewer may not.
        assert_eq!(judged(&[vec![MS; 99], vec![60 * MS]].concat()), None);
        assert_eq!(judged(&[vec![MS; 98], vec![60 * MS; 2]].concat()), Some(Severity::Warning));
        assert_eq!(judged(&[vec![MS; 49], vec![60 * MS]].concat()), Some(Severity::Warning));
    }

    #[test]
    fn a_figure_is_called_what_it_is() {
        let told = |count: u32| {
            let mut report = Report::new("here");
            report.judge_latency("a", (1..=count).map(|number| number * MS).collect(), 1000 * MS, 1000 * MS);
            report.facts[0].value.clone()
        };
        assert_eq!(told(5), "p50 3ms, worst 5ms of 5");
        assert_eq!(told(100), "p50 50ms, p99 99ms of 100");
        assert_eq!(told(1), "p50 1ms, worst 1ms of 1");
    }

    #[test]
    fn one_of_several_that_is_missing_is_a_warning() {
        let judged = |suffice| {
            let mut report = Report::new("here");
            report.judge_missing([("a".into(), Trouble::new(StoreErrorKind::Unreachable, "gone"))], suffice);
            (report.worst(), report.findings[0].code)
        };
        assert_eq!(judged(true), (Some(Severity::Warning), "unreachable"));
        assert_eq!(judged(false), (Some(Severity::Error), "unreachable"));
    }

    #[test]
    fn clocks_may_be_apart_by_what_the_reading_took() {
        let judged = |ahead, round_trip| {
            let mut report = Report::new("here");
            report.judge_clock("a", ahead, round_trip);
            report.worst()
        };
        assert_eq!(judged(900, MS), None);
        assert_eq!(judged(-1100, MS), Some(Severity::Warning));
        assert_eq!(judged(1100, 200 * MS), None);
        assert_eq!(judged(-11_000, MS), Some(Severity::Error));
        assert_eq!(judged(i64::MIN, MS), Some(Severity::Error));
    }
}
