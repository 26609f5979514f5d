//! What happened at this replica, kept for a while: who was away for a moment goes on where it was.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fencepost_core::store::LockName;
use fencepost_core::{Event, EventKind, Feed, Locks, NodeVote, StoreErrorKind, Vote};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::wire::{self, ms};

/// How many events are kept.
const KEPT: usize = 4096;
/// How many of them wait for one who reads slowly.
const AT_A_TIME: usize = 64;

/// Events are collected only while somebody listens. Until then they stay in the library's feed, which keeps as many and
/// counts what it forgets: whoever asks for a lock does not wait for a task that nobody needs.
pub(crate) struct Ring {
    /// Tells the events of this run of this replica from those of others.
    run: String,
    state: Mutex<State>,
    newest: watch::Sender<u64>,
    /// Nobody listens any more.
    alone: Notify,
    draining: watch::Receiver<bool>,
    /// About when the connection did whose events these are.
    began: Instant,
}

struct State {
    kept: VecDeque<Kept>,
    /// The number of the last one.
    last: u64,
    listeners: usize,
    /// Where events come from, while nobody collects them.
    feed: Option<Feed<Event>>,
    /// What each node said last to a claim, and when: as events have it.
    votes: HashMap<String, (Duration, Vote)>,
}

/// An event as it is told.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) data: Value,
}

/// Somebody who hears of events, until it is dropped.
pub(crate) struct Listener(Arc<Ring>);

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.listeners -= 1;
        if state.listeners == 0 {
            self.0.alone.notify_one();
        }
    }
}

impl std::ops::Deref for Listener {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        &self.0
    }
}

impl Ring {
    /// Of what happens from now on.
    pub(crate) fn of(locks: &Locks, draining: watch::Receiver<bool>) -> Arc<Self> {
        let run = fencepost_core::store::Owner::random().map(|owner| owner.expose()[..12].to_owned());
        let state =
            State { kept: VecDeque::new(), last: 0, listeners: 0, feed: Some(locks.events()), votes: HashMap::new() };
        Arc::new(Self {
            run: run.unwrap_or_else(|_| std::process::id().to_string()),
            state: Mutex::new(state),
            newest: watch::Sender::new(0),
            alone: Notify::new(),
            draining,
            began: Instant::now(),
        })
    }

    /// From now on events are collected. What happened before is there.
    pub(crate) fn listen(self: &Arc<Self>) -> Listener {
        let mut state = self.state();
        state.listeners += 1;
        if let Some(mut feed) = state.feed.take() {
            while let Some(Some(Ok(event))) = feed.next().now_or_never() {
                state.put(&event);
            }
            self.newest.send_replace(state.last);
            drop(state);
            tokio::spawn(self.clone().collect(feed));
        }
        Listener(self.clone())
    }

    /// Collects while somebody listens, until the service ends.
    async fn collect(self: Arc<Self>, mut feed: Feed<Event>) {
        let mut draining = self.draining.clone();
        loop {
            tokio::select! {
                event = feed.next() => match event {
                    Some(Ok(event)) => {
                        let mut state = self.state();
                        state.put(&event);
                        // Under the lock: the newest never goes back.
                        self.newest.send_replace(state.last);
                    }
                    _ => return,
                },
                () = self.alone.notified() => {
                    let mut state = self.state();
                    // Somebody may have come meanwhile.
                    if state.listeners == 0 {
                        state.feed = Some(feed);
                        return;
                    }
                }
                _ = draining.wait_for(|draining| *draining) => return,
            }
        }
    }

    /// Somebody ended a hold by force: the library tells that to the holder only.
    pub(crate) fn forced(self: &Arc<Self>, name: &LockName, by: &str) {
        // What happened before it comes before it.
        let listener = self.listen();
        let mut state = listener.state();
        let name = name.as_str().to_owned();
        let data = json!({ "name": name, "by": by });
        state.keep(name, "forced", data);
        self.newest.send_replace(state.last);
    }

    /// A node that was just asked, with what it said to claims: one that lost its memory answers, and does not vote.
    pub(crate) fn node(&self, asked: &NodeVote) -> wire::Node {
        let wire::NodeVote { node, latency_ms, vote } = asked.into();
        let last = self.state().votes.get(&node).cloned();
        let now = self.began.elapsed();
        let quarantined = last.as_ref().and_then(|(at, vote)| match vote {
            Vote::Failed(StoreErrorKind::Quarantined { left }) => left.checked_sub(now.saturating_sub(*at)),
            _ => None,
        });
        let last_vote = last.map(|(_, vote)| vote.to_string());
        let is_away = matches!(asked.vote, Vote::Failed(_) | Vote::Unheard);
        wire::Node { node, latency_ms, vote, last_vote, quarantined_ms: quarantined.map(ms), is_away }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of an event.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }

    /// Where somebody goes on who was told this id last: after which number, and whether something was missed before it.
    pub(crate) fn resume(&self, last: Option<&str>) -> (u64, bool) {
        let newest = self.state().last;
        let Some(last) = last else { return (newest, false) };
        let number = last.strip_prefix(&self.run).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
        // Of another replica, or of this one before it was restarted.
        number.filter(|number| *number <= newest).map_or((newest, true), |number| (number, false))
    }

    /// What came after that number, a few at a time, and how many of it are forgotten.
    pub(crate) fn after(&self, number: u64) -> (Vec<Kept>, u64) {
        let state = self.state();
        let first = state.kept.front().map_or(state.last + 1, |kept| kept.number);
        let missed = first.saturating_sub(number + 1);
        let first = state.kept.partition_point(|kept| kept.number <= number);
        (state.kept.range(first..).take(AT_A_TIME).cloned().collect(), missed)
    }

    /// Resolves when there is something after that number.
    pub(crate) async fn news(&self, number: u64) {
        let mut newest = self.newest.subscribe();
        let _ = newest.wait_for(|newest| *newest > number).await;
    }
}

impl State {
    fn put(&mut self, event: &Event) {
        if let EventKind::Missed { events, .. } = &event.kind {
            // What was there before them is older still: nobody is told of it without the gap.
            self.last += events;
            self.kept.clear();
            return;
        }
        if let EventKind::Voted(NodeVote { node, vote, .. }) = &event.kind
            && *vote != Vote::Unheard
        {
            self.votes.insert(node.clone(), (event.at, vote.clone()));
        }
        let Some((kind, mut data)) = told(&event.kind) else { return };
        data["name"] = event.name.clone().into();
        data["claim"] = event.claim.into();
        data["at_ms"] = ms(event.at).into();
        self.keep(event.name.clone(), kind, data);
    }

    fn keep(&mut self, name: String, kind: &'static str, data: Value) {
        self.last += 1;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Kept { number: self.last, name, kind, data });
    }
}

/// An event by its name, and what it tells. Votes are for metrics.
fn told(kind: &EventKind) -> Option<(&'static str, Value)> {
    Some(match kind {
        EventKind::Asked => ("asked", json!({})),
        EventKind::Waiting => ("waiting", json!({})),
        EventKind::Acquired { token, .. } => ("acquired", json!({ "token": token.to_string() })),
        EventKind::Refused => ("refused", json!({})),
        EventKind::Renewed { remaining, .. } => ("renewed", json!({ "remaining_ms": ms(*remaining) })),
        EventKind::RenewalUnknown { remaining, .. } => ("renewal_unknown", json!({ "remaining_ms": ms(*remaining) })),
        EventKind::Downgraded => ("downgraded", json!({})),
        EventKind::YieldRequested(request) => {
            let request =
                wire::YieldRequest { by: request.by.clone(), note: request.note.clone(), number: request.number() };
            ("yield_requested", json!(request))
        }
        EventKind::Lost(reason) => ("lost", json!({ "reason": reason.to_string() })),
        EventKind::Releasing => ("releasing", json!({})),
        EventKind::Released(_) => ("released", json!({})),
        EventKind::ReleaseUnknown => ("release_unknown", json!({})),
        _ => return None,
    })
}
