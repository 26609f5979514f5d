//! One question to all nodes: what do you know of this lock?

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::Quorum;
use super::electorate::Electorate;
use crate::clock::{Alarm, Moment};
use crate::error::{NodeVote, StoreError, StoreErrorKind, Vote};
use crate::foreign;
use crate::kinds::{Boxed, all};
use crate::state::{ForcedRelease, Holder, LockState, YieldRequest};
use crate::store::{Answer, Deed, Event, LockName, Mailbox, Post, Reply, Step, Trouble};
use crate::token::FencingToken;

/// Questions are asked by people and dashboards: they may take longer than a vote.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long the rest may take once a majority has answered and does not agree.
const AGREE_WITHIN: Duration = Duration::from_millis(250);

/// Which nodes did not do it, after how long, and why.
type Troubles = Vec<(usize, Duration, Trouble)>;

struct Inquiry {
    heard: Mutex<Heard>,
}

struct Heard {
    electorate: Electorate,
    answers: Vec<Option<Result<Answer, Trouble>>>,
    /// Nobody is waited for any longer.
    over: bool,
    waker: Option<Waker>,
}

impl Inquiry {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A majority answered, or nobody else can.
    fn poll_majority(&self, context: &Context<'_>) -> Poll<()> {
        self.poll(context, |heard| heard.electorate.elects(|node| heard.good(node).is_some()))
    }

    /// A majority says the same, or nobody else can.
    fn poll_agreement(&self, context: &Context<'_>) -> Poll<()> {
        self.poll(context, Heard::agrees)
    }

    /// All have answered, or nobody else can.
    fn poll_all(&self, context: &Context<'_>) -> Poll<()> {
        self.poll(context, |_| false)
    }

    fn poll(&self, context: &Context<'_>, enough: impl Fn(&Heard) -> bool) -> Poll<()> {
        // Cloned and dropped outside the mutex: a waker is the user's code.
        let mut waker = Some(context.waker().clone());
        let mut heard = self.heard();
        if heard.over || heard.answers.iter().all(Option::is_some) || enough(&heard) {
            return Poll::Ready(());
        }
        std::mem::swap(&mut heard.waker, &mut waker);
        Poll::Pending
    }
}

impl Heard {
    /// Of so many nodes.
    fn nothing(nodes: usize, electorate: Electorate) -> Self {
        Self { electorate, answers: vec![None; nodes], over: false, waker: None }
    }

    fn good(&self, node: usize) -> Option<&Answer> {
        self.answers[node].as_ref()?.as_ref().ok()
    }

    /// What a majority says alike is so, whatever the rest will say.
    fn agrees(&self) -> bool {
        let gists: Vec<_> = (0..self.answers.len()).map(|node| self.good(node).map(gist)).collect();
        let mut said = gists.iter().filter(|gist| gist.is_some());
        said.any(|gist| self.electorate.elects(|node| gists[node] == *gist))
    }
}

type Gist<'a> = Vec<(&'a str, Vec<Option<FencingToken>>, Option<FencingToken>)>;

/// What matters of an answer: each lock, who holds it, the last token.
fn gist(answer: &Answer) -> Gist<'_> {
    let tokens = |holders: &[Holder]| holders.iter().map(|holder| holder.token).collect();
    let of_state = |state: &LockState| tokens(&state.holders);
    match answer {
        Answer::State(state) => vec![(state.name.as_str(), of_state(state), state.last_token)],
        Answer::States(states) => {
            states.iter().map(|state| (state.name.as_str(), of_state(state), state.last_token)).collect()
        }
        Answer::Evicted(holders) | Answer::Asked(holders) => vec![("", tokens(holders), None)],
        _ => Vec::new(),
    }
}

impl Mailbox for Inquiry {
    fn post(self: Arc<Self>, post: Post) {
        let Event::Answer(answer) = post.event else { return };
        let waker = {
            let mut heard = self.heard();
            if let Some(slot) = heard.answers.get_mut(post.node) {
                *slot = Some(answer);
            }
            heard.waker.take()
        };
        foreign::wake(waker);
    }
}

impl Alarm for Inquiry {
    fn ring(self: Arc<Self>) {
        let waker = {
            let mut heard = self.heard();
            heard.over = true;
            heard.waker.take()
        };
        foreign::wake(waker);
    }
}

impl Quorum {
    /// What a majority knows of a lock.
    pub(crate) async fn inspect(self: &Arc<Self>, name: LockName) -> Result<LockState, StoreError> {
        self.inspect_within(name, self.patient()).await
    }

    /// The same for an acquisition, which waits for a vote's time only.
    pub(crate) async fn inspect_within(
        self: &Arc<Self>,
        name: LockName,
        within: Duration,
    ) -> Result<LockState, StoreError> {
        let answers = self.ask("inspect", within, |_| Step::Inspect { name: name.clone() }).await?;
        let states = answers.into_iter().filter_map(|(node, answer)| match answer {
            Answer::State(state) => Some((node, state)),
            _ => None,
        });
        Ok(self.merged(name.as_str(), states.collect()))
    }

    /// A page of locks in name order, and whether there may be more.
    pub(crate) async fn list(
        self: Arc<Self>,
        prefix: Arc<str>,
        after: Option<LockName>,
        limit: u32,
        contended: bool,
    ) -> Result<(Vec<LockState>, bool), StoreError> {
        let step = |_| Step::List { prefix: prefix.clone(), after: after.clone(), limit, contended };
        let answers = self.ask("list", self.patient(), step).await?;
        let pages: Vec<(usize, Vec<LockState>)> = answers
            .into_iter()
            .filter_map(|(node, answer)| match answer {
                Answer::States(states) => Some((node, states)),
                _ => None,
            })
            .collect();
        // Beyond the last name of a full page a node may know locks that it had no room to say.
        let full = pages.iter().filter(|(_, page)| page.len() >= limit as usize);
        let horizon = full.filter_map(|(_, page)| page.last()).map(|state| state.name.clone()).min();
        let mut by_name: BTreeMap<String, Vec<(usize, LockState)>> = BTreeMap::new();
        let each = pages.into_iter().flat_map(|(node, page)| page.into_iter().map(move |state| (node, state)));
        for (node, state) in each {
            if horizon.as_ref().is_none_or(|horizon| state.name <= *horizon) {
                by_name.entry(state.name.clone()).or_default().push((node, state));
            }
        }
        let states = by_name.into_iter().map(|(name, states)| self.merged(&name, states)).collect();
        Ok((states, horizon.is_some()))
    }

    /// Throws out whoever holds the lock. Answers who that was, and which nodes did not confirm it.
    pub(crate) async fn evict(self: &Arc<Self>, name: LockName) -> Result<ForcedRelease, StoreError> {
        let seen = self.ask("force_release", self.patient(), |_| Step::Inspect { name: name.clone() }).await?;
        let last = seen.iter().filter_map(|(_, answer)| match answer {
            Answer::State(state) => state.last_token,
            _ => None,
        });
        // Above every node's, not only above a majority's: the holder's renewal must not re-create the grant anywhere.
        let above = self.proposal(last.max());
        let step = |_| Step::Evict { name: name.clone(), above };
        let (answers, unreached) = self.tell_all("force_release", self.patient(), step).await?;
        let states = answers.into_iter().filter_map(|(node, answer)| match answer {
            Answer::Evicted(holders) => Some((node, LockState { holders, ..LockState::free(name.as_str()) })),
            _ => None,
        });
        let holder = self.merged(name.as_str(), states.collect()).holders.into_iter().next();
        Ok(ForcedRelease { holder, unreached })
    }

    /// Not the same twice; below 2^53 every store can write it.
    pub(crate) fn any_number(&self) -> u64 {
        self.chance.number(1 << 53)
    }

    /// Asks whoever holds the lock to let go. Answers who that was.
    pub(crate) async fn ask_to_yield(
        self: &Arc<Self>,
        name: LockName,
        request: YieldRequest,
    ) -> Result<Option<Holder>, StoreError> {
        let request = Arc::new(request);
        let step = |_| Step::Ask { name: name.clone(), request: request.clone() };
        let answers = self.ask("ask_to_yield", self.patient(), step).await?;
        let states = answers.into_iter().filter_map(|(node, answer)| match answer {
            Answer::Asked(holders) => Some((node, LockState { holders, ..LockState::free(name.as_str()) })),
            _ => None,
        });
        Ok(self.merged(name.as_str(), states.collect()).holders.into_iter().next())
    }

    /// One store decides, and keeps data.
    pub(crate) fn keeps_records(&self) -> bool {
        self.nodes.len() == 1 && self.abilities.records
    }

    /// Reads or writes a record, where one store decides.
    pub(crate) async fn record(self: &Arc<Self>, name: LockName, deed: Deed) -> Result<Answer, StoreError> {
        let step = Step::Record { name, deed };
        let operation = step.operation();
        if !self.keeps_records() {
            let message = "this store keeps no records; name one that does with `keep_records_in`: a database, etcd, or one Redis";
            return Err(StoreError::new(StoreErrorKind::Unsupported, operation, message));
        }
        let mut answers = self.ask(operation, self.patient(), |_| step.clone()).await?;
        answers.pop().map(|(_, answer)| answer).ok_or_else(|| StoreError::no_answer(operation))
    }

    /// How each node is: what it says when it is asked for something small, and how fast.
    pub(crate) async fn probe(self: &Arc<Self>, name: &LockName) -> Vec<NodeVote> {
        let probes = self.nodes.iter().map(|store| {
            let ask = async move {
                let started = self.clock.now();
                let deadline = started.plus(self.patient());
                let heard = Heard::nothing(1, Electorate::of(1));
                let inquiry = Arc::new(Inquiry { heard: Mutex::new(heard) });
                let target: Arc<dyn Alarm> = inquiry.clone();
                let alarm = self.clock.alarm(deadline, Arc::downgrade(&target));
                store.submit(Step::Inspect { name: name.clone() }, deadline, Reply::new(inquiry.clone(), 0, 0));
                poll_fn(|context| inquiry.poll_majority(context)).await;
                self.clock.cancel(alarm);
                let vote = match inquiry.heard().answers.pop().flatten() {
                    Some(Ok(_)) => Vote::Granted,
                    Some(Err(trouble)) => Vote::Failed(trouble.kind),
                    None => Vote::Failed(StoreErrorKind::TooSlow),
                };
                NodeVote::new(store.label(), self.clock.now().since(started), vote)
            };
            Box::pin(ask) as Boxed<'_, _>
        });
        all(probes.collect()).await
    }

    fn patient(&self) -> Duration {
        self.answer_within.unwrap_or(ANSWER_WITHIN).max(ANSWER_WITHIN)
    }

    async fn ask(
        self: &Arc<Self>,
        operation: &'static str,
        within: Duration,
        step: impl Fn(usize) -> Step,
    ) -> Result<Vec<(usize, Answer)>, StoreError> {
        let (good, _) = self.put_to_all(operation, within, step, Inquiry::poll_agreement).await?;
        Ok(good)
    }

    /// Tells all nodes; those that a majority does not have to wait for have a moment more. Answers who did not confirm it.
    async fn tell_all(
        self: &Arc<Self>,
        operation: &'static str,
        within: Duration,
        step: impl Fn(usize) -> Step,
    ) -> Result<(Vec<(usize, Answer)>, Vec<NodeVote>), StoreError> {
        let (good, bad) = self.put_to_all(operation, within, step, Inquiry::poll_all).await?;
        let vote =
            |(node, latency, trouble): (usize, _, Trouble)| self.node_vote(node, latency, Vote::Failed(trouble.kind));
        Ok((good, bad.into_iter().map(vote).collect()))
    }

    /// Waits for a majority, and for a moment more until it is enough.
    async fn put_to_all(
        self: &Arc<Self>,
        operation: &'static str,
        within: Duration,
        step: impl Fn(usize) -> Step,
        enough: impl Fn(&Inquiry, &Context<'_>) -> Poll<()>,
    ) -> Result<(Vec<(usize, Answer)>, Troubles), StoreError> {
        let started = self.clock.now();
        let deadline = started.plus(within);
        let heard = Heard::nothing(self.nodes.len(), self.electorate.clone());
        let inquiry = Arc::new(Inquiry { heard: Mutex::new(heard) });
        let target: Arc<dyn Alarm> = inquiry.clone();
        let alarm = self.clock.alarm(deadline, Arc::downgrade(&target));
        for (node, store) in self.nodes.iter().enumerate() {
            store.submit(step(node), deadline, Reply::new(inquiry.clone(), node, 0));
        }
        poll_fn(|context| inquiry.poll_majority(context)).await;
        let grace = self.clock.alarm(self.clock.now().plus(AGREE_WITHIN).min(deadline), Arc::downgrade(&target));
        poll_fn(|context| enough(&inquiry, context)).await;
        self.clock.cancel(grace);
        self.clock.cancel(alarm);
        let answers = std::mem::take(&mut inquiry.heard().answers);
        self.majority(operation, started, answers)
    }

    fn majority(
        &self,
        operation: &'static str,
        started: Moment,
        answers: Vec<Option<Result<Answer, Trouble>>>,
    ) -> Result<(Vec<(usize, Answer)>, Troubles), StoreError> {
        let latency = self.clock.now().since(started);
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for (node, answer) in answers.into_iter().enumerate() {
            match answer {
                Some(Ok(answer)) => good.push((node, answer)),
                Some(Err(trouble)) => bad.push((node, latency, trouble)),
                None => bad.push((node, latency, Trouble::new(StoreErrorKind::TooSlow, "no answer in time"))),
            }
        }
        if !self.electorate.elects(|node| good.iter().any(|(other, _)| *other == node)) {
            return Err(self.error(operation, bad));
        }
        Ok((good, bad))
    }

    /// One picture from several: a holder is whom a majority names, or may name once all have answered. So is the last
    /// token: what only a minority accepted was never granted, an attempt that failed left it there.
    fn merged(&self, name: &str, states: Vec<(usize, LockState)>) -> LockState {
        let mut merged = LockState::free(name);
        let mut votes: Vec<(Holder, Vec<usize>)> = Vec::new();
        let of = |node: usize| states.iter().find(|(other, _)| *other == node).map(|(_, state)| state);
        merged.last_token = self.electorate.may_be_reached(|node| of(node).map(|state| state.last_token)).flatten();
        let spoke: Vec<usize> = states.iter().map(|(node, _)| *node).collect();
        for (node, state) in states {
            if state.waiters.len() > merged.waiters.len() {
                merged.waiters = state.waiters;
            }
            for holder in state.holders {
                match votes.iter_mut().find(|(other, _)| other.token == holder.token && other.label == holder.label) {
                    Some((other, named_by)) => {
                        // A node that missed a downgrade still names a writer.
                        other.shared |= holder.shared;
                        named_by.push(node);
                    }
                    None => votes.push((holder, vec![node])),
                }
            }
        }
        // Whom most nodes name comes first, and of several the newest.
        votes.sort_by_key(|(holder, named_by)| std::cmp::Reverse((named_by.len(), holder.token)));
        // A writer may have another token on a node that missed a round of its acquisition: it is one holder all the same.
        let mut holders: Vec<(Holder, Vec<usize>)> = Vec::new();
        for (holder, named_by) in votes {
            let is_same = |other: &Holder| {
                !holder.shared && !other.shared && (&other.label, other.actor) == (&holder.label, holder.actor)
            };
            match holders.iter_mut().find(|(other, _)| is_same(other)) {
                Some((_, all)) => all.extend(named_by),
                None => holders.push((holder, named_by)),
            }
        }
        let may_hold =
            |named_by: &[usize]| self.electorate.elects_one(|node| named_by.contains(&node) || !spoke.contains(&node));
        let holders = holders.into_iter().filter(|(_, named_by)| may_hold(named_by));
        merged.holders = holders.map(|(holder, _)| holder).collect();
        merged
    }
}
