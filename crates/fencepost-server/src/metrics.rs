//! What can be counted, for Prometheus. The name of a lock is never a label: there may be millions.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::MatchedPath;
use fencepost_core::{Event, EventKind, LossReason, NodeVote, Observer, ReleaseOutcome, Vote};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// One label and its value, as `node="a"`.
type Label = Labels<1>;
/// Nearly all values are known beforehand: counting allocates nothing.
type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// What was answered. The route is a pattern, so that there are few.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: Route,
    status: u16,
}

#[derive(Clone, Debug)]
struct Route(Option<MatchedPath>);

impl Route {
    fn as_str(&self) -> &str {
        self.0.as_ref().map_or("none", MatchedPath::as_str)
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Route {}

impl Hash for Route {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl EncodeLabelValue for Route {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        EncodeLabelValue::encode(&self.as_str(), encoder)
    }
}

/// From one answer of a fast store to the longest wait that is allowed.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];
/// From a short critical section to a leader's day.
const HOLD_SECONDS: [f64; 12] = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 86400.0];
/// Claims that are followed from question to answer; more are counted, but not timed.
const CLAIMS_MAX: usize = 100_000;
/// Longer than any wait that is allowed: of a claim that is older nobody hears any more.
const HEARD_OF_WITHIN: Duration = Duration::from_secs(3600);

/// Everything that is counted. Cheap to clone. As an [`Observer`] of the service's connection to its store, it also
/// counts what the library tells.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    requests: Family<Answered, Counter>,
    acquire: Histogram,
    wait: Histogram,
    hold: Histogram,
    late: Histogram,
    acquires: Family<Label, Counter>,
    releases: Family<Label, Counter>,
    renewals: Family<Label, Counter>,
    lost: Family<Label, Counter>,
    votes: Family<Labels<2>, Counter>,
    vote: Family<Label, Histogram>,
    denied: Family<Label, Counter>,
    limited: Family<Label, Counter>,
    reloads: Family<Labels<2>, Counter>,
    connections: Gauge,
    waiting: Gauge,
    audit_missed: Counter,
    ready: Gauge,
    /// Since when a claim has asked, and been in line.
    claims: Mutex<HashMap<u64, (Duration, Option<Duration>)>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("fencepost");
        let seconds = || Histogram::new(SECONDS);
        let inner = Inner {
            requests: family(&mut registry, "http_requests", "Requests that were answered, by route and status"),
            acquire: timed(&mut registry, "acquire", "From asking for a lock to having it, or not", SECONDS),
            wait: timed(&mut registry, "wait", "In line for a lock, for those who got it", SECONDS),
            hold: timed(
                &mut registry,
                "hold",
                "From a grant to its release, where both came through here",
                HOLD_SECONDS,
            ),
            late: timed(&mut registry, "renew_lateness", "Renewals behind a third of their ttl", SECONDS),
            acquires: family(&mut registry, "acquire", "Acquisitions, by how they ended"),
            releases: family(&mut registry, "release", "Releases, by how they ended"),
            renewals: family(&mut registry, "renew", "Renewals, by how they ended"),
            lost: family(&mut registry, "lost", "Holds that ended unasked, by reason"),
            votes: family(&mut registry, "votes", "Answers of nodes to acquisitions, by node"),
            vote: {
                let votes = Family::<Label, Histogram>::new_with_constructor(seconds as fn() -> Histogram);
                registry.register_with_unit(
                    "vote",
                    "Until a node answered an acquisition",
                    Unit::Seconds,
                    votes.clone(),
                );
                votes
            },
            denied: family(&mut registry, "denied", "Requests that were refused for who sent them, by why"),
            limited: family(&mut registry, "limited", "Requests that were refused by a limit, by which"),
            reloads: family(&mut registry, "reloads", "Files that were read again, by whether they could be used"),
            connections: gauge(&mut registry, "connections", "Open connections"),
            waiting: gauge(&mut registry, "waiting", "Requests that wait in line here"),
            audit_missed: Counter::default(),
            ready: gauge(&mut registry, "ready", "Whether this replica takes requests and its store answers"),
            claims: Mutex::default(),
            registry: Registry::default(),
        };
        let missed = "Acts that are not in the audit log, because it could not be written or there were too many";
        registry.register("audit_missed", missed, inner.audit_missed.clone());
        inner.begin_at_zero();
        Self(Arc::new(Inner { registry, ..inner }))
    }

    /// All of it, in Prometheus' text format.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.0.registry);
        text
    }

    /// A request was answered.
    pub(crate) fn answered(&self, method: &'static str, route: Option<&MatchedPath>, status: u16) {
        self.0.requests.get_or_create(&Answered { method, route: Route(route.cloned()), status }).inc();
    }

    /// Somebody was refused for who they are.
    pub(crate) fn denied(&self, why: &'static str) {
        self.0.denied.get_or_create(&[("why", why.into())]).inc();
    }

    /// Somebody was refused by a limit.
    pub(crate) fn limited(&self, limit: &'static str) {
        self.0.limited.get_or_create(&[("limit", limit.into())]).inc();
    }

    /// A lock was given back so long after its grant.
    pub(crate) fn held_for(&self, held: Duration) {
        self.0.hold.observe(held.as_secs_f64());
    }

    /// A renewal came so long after the third of its ttl at which it was due.
    pub(crate) fn renewed_late_by(&self, late: Duration) {
        self.0.late.observe(late.as_secs_f64());
    }

    /// A file changed, to the good or not.
    pub(crate) fn reloaded(&self, what: &'static str, good: bool) {
        let outcome = if good { "read" } else { "refused" };
        self.0.reloads.get_or_create(&[("what", what.into()), ("outcome", outcome.into())]).inc();
    }

    /// Acts that are not in the audit log.
    pub(crate) fn audit_missed(&self) {
        self.0.audit_missed.inc();
    }

    /// One connection more, until the answer is dropped.
    pub(crate) fn connected(&self) -> Up {
        Up::new(&self.0.connections)
    }

    /// One request more that waits, until the answer is dropped.
    pub(crate) fn waiting(&self) -> Up {
        Up::new(&self.0.waiting)
    }

    /// Whether requests are taken.
    pub(crate) fn ready(&self, ready: bool) {
        self.0.ready.set(ready.into());
    }
}

fn family<L>(registry: &mut Registry, name: &str, help: &str) -> Family<L, Counter>
where
    L: EncodeLabelSet + Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static,
{
    let family = Family::default();
    registry.register(name, help, Clone::clone(&family));
    family
}

fn timed<const N: usize>(registry: &mut Registry, name: &str, help: &str, buckets: [f64; N]) -> Histogram {
    let histogram = Histogram::new(buckets);
    registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
    histogram
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

/// Counts as long as it lives.
#[derive(Debug)]
pub(crate) struct Up(Gauge);

impl Up {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Observer for Metrics {
    fn event(&self, event: &Event) {
        let count = |family: &Family<Label, Counter>, outcome: &'static str| {
            family.get_or_create(&[("outcome", outcome.into())]).inc();
        };
        match &event.kind {
            EventKind::Asked => self.0.asked(event),
            EventKind::Waiting => self.0.in_line(event),
            EventKind::Acquired { .. } => {
                self.0.answered(event, true);
                count(&self.0.acquires, "acquired");
            }
            EventKind::Refused => {
                self.0.answered(event, false);
                count(&self.0.acquires, "refused");
            }
            EventKind::Renewed { .. } => {
                self.0.forget(event);
                count(&self.0.renewals, "renewed");
            }
            EventKind::RenewalUnknown { .. } => {
                self.0.forget(event);
                count(&self.0.renewals, "unknown");
            }
            EventKind::Releasing => self.0.forget(event),
            EventKind::Lost(reason) => {
                self.0.forget(event);
                self.0.lost.get_or_create(&[("reason", loss(*reason).into())]).inc();
            }
            EventKind::Released(outcome) => count(&self.0.releases, release(*outcome)),
            EventKind::ReleaseUnknown => count(&self.0.releases, "unknown"),
            EventKind::Voted(vote) => self.0.voted(vote),
            _ => {}
        }
    }
}

impl Inner {
    /// What alerts look at is there before it happens for the first time: else nobody sees it rise.
    fn begin_at_zero(&self) {
        let begin = |family: &Family<Label, Counter>, label: &'static str, values: &[&'static str]| {
            for value in values {
                drop(family.get_or_create(&[(label, (*value).into())]));
            }
        };
        begin(&self.acquires, "outcome", &["acquired", "refused"]);
        begin(&self.releases, "outcome", &["freed", "not_held", "unproven", "unknown"]);
        begin(&self.renewals, "outcome", &["renewed", "unknown"]);
        let reasons = ["expired", "taken_over", "unreachable", "node_restarted", "revoked", "hold_limit"];
        begin(&self.lost, "reason", &reasons);
        begin(&self.denied, "why", &["credential", "origin", "acquire", "observe", "admin"]);
        begin(
            &self.limited,
            "limit",
            &["rate", "locks", "waiters", "waiters_per_lock", "watchers", "body", "body_time"],
        );
    }

    fn asked(&self, event: &Event) {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if claims.len() >= CLAIMS_MAX {
            // Of some claims nobody hears again: whoever asked for them has gone.
            claims.retain(|_, (asked, _)| event.at.saturating_sub(*asked) < HEARD_OF_WITHIN);
        }
        if claims.len() < CLAIMS_MAX {
            claims.insert(event.claim, (event.at, None));
        }
    }

    fn in_line(&self, event: &Event) {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, waiting)) = claims.get_mut(&event.claim) {
            waiting.get_or_insert(event.at);
        }
    }

    fn answered(&self, event: &Event, granted: bool) {
        let claim = self.claims.lock().unwrap_or_else(PoisonError::into_inner).remove(&event.claim);
        let Some((asked, waiting)) = claim else { return };
        self.acquire.observe(event.at.saturating_sub(asked).as_secs_f64());
        if let Some(since) = waiting.filter(|_| granted) {
            self.wait.observe(event.at.saturating_sub(since).as_secs_f64());
        }
    }

    /// A lease that came back asks for nothing: it is renewed or released.
    fn forget(&self, event: &Event) {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).remove(&event.claim);
    }

    fn voted(&self, vote: &NodeVote) {
        let node = Cow::<'static, str>::from(vote.node.clone());
        self.vote.get_or_create(&[("node", node.clone())]).observe(vote.latency.as_secs_f64());
        let said = match &vote.vote {
            Vote::Granted => "granted",
            Vote::Refused => "refused",
            Vote::Stale => "stale",
            Vote::Unheard => "unheard",
            _ => "failed",
        };
        self.votes.get_or_create(&[("node", node), ("vote", said.into())]).inc();
    }
}

fn loss(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Expired => "expired",
        LossReason::TakenOver => "taken_over",
        LossReason::Unreachable => "unreachable",
        LossReason::NodeRestarted => "node_restarted",
        LossReason::Revoked => "revoked",
        LossReason::HoldLimit => "hold_limit",
        _ => "other",
    }
}

fn release(outcome: ReleaseOutcome) -> &'static str {
    match outcome {
        ReleaseOutcome::Freed => "freed",
        ReleaseOutcome::StillHeld { .. } => "still_held",
        ReleaseOutcome::Unproven => "unproven",
        _ => "not_held",
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::store::{Memory, connect};
    use fencepost_core::{Blocking, foreign};

    use super::*;

    #[test]
    fn what_the_library_tells_is_counted() {
        let metrics = Metrics::new();
        let locks =
            connect(|opening| Ok(vec![Memory::new(opening.clock)])).observer(metrics.clone()).block().expect("open");
        let guard = locks.lock("secret/name").acquire().block().expect("free");
        assert!(locks.lock("secret/name").try_acquire().block().expect("asked").is_none());
        let guard = locks.adopt(&guard.leak()).block().expect("renewed");
        guard.release().block().expect("released");
        foreign::told().block();
        assert!(metrics.0.claims.lock().expect("whole").is_empty(), "nothing is kept of what has ended");
        let text = metrics.render();
        for line in [
            "fencepost_acquire_total{outcome=\"acquired\"} 1",
            "fencepost_acquire_total{outcome=\"refused\"} 1",
            "fencepost_release_total{outcome=\"freed\"} 1",
            "fencepost_acquire_seconds_count 2",
            "fencepost_wait_seconds_count 0",
            "fencepost_waiting 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in:\n{text}");
        }
        assert!(!text.contains("secret"), "names are no labels");
        let up = metrics.waiting();
        assert!(metrics.render().contains("fencepost_waiting 1\n"));
        drop(up);
        assert!(metrics.render().contains("fencepost_waiting 0\n"));
    }
}
