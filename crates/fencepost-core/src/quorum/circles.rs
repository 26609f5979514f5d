//! Looking for deadlocks: over what a majority shows of all contended locks, and what only this process knows.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use super::{Course, Quorum};
use crate::actor::{Actor, ActorId};
use crate::bell::Bell;
use crate::clock::Moment;
use crate::deadlock::{Cycle, Waits, turn_to_give_way};
use crate::error::{AcquireError, StoreError};
use crate::name::LockName;
use crate::state::{LockState, Waiter};

/// How often one that waits looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Whoever began to wait last gives way at once; if it does not, it may not have asked for it: so much later the next.
const GRACE: Duration = Duration::from_secs(2);
/// How many locks are fetched at a time.
const PAGE: u32 = 500;
/// All who wait look at one picture of all lines: so old it may be, unless somebody has only now begun to wait.
const FRESH: Duration = Duration::from_millis(500);
/// A new picture is begun so long after the last one, and after twice what that took.
const PICTURES_APART: Duration = Duration::from_millis(100);

/// All locks that somebody waits for, as they were.
#[derive(Default)]
pub(super) struct Picture {
    /// Begun last.
    begun: Option<Moment>,
    took: Duration,
    /// Finished last, and when it was begun.
    last: Option<(Moment, Arc<Vec<LockState>>)>,
}

impl Quorum {
    /// Each cycle in order: the holder of a lock waits for the next lock.
    pub(crate) async fn deadlocks(self: &Arc<Self>) -> Result<Vec<Vec<LockState>>, StoreError> {
        let states = self.contended().await?;
        let waits = Waits::seen_in(&states);
        let mut deadlocks = Vec::new();
        for cycle in waits.cycles() {
            deadlocks.extend(self.confirmed(&cycle, &waits).await?.map(|(_, locks)| locks));
        }
        Ok(deadlocks)
    }

    /// The cycle that this actor closes by waiting for this lock, if there is one, in a picture that is so old at most.
    async fn closed_by(
        self: &Arc<Self>,
        actor: ActorId,
        name: &LockName,
        age: Duration,
    ) -> Result<Option<(Cycle, Vec<LockState>)>, StoreError> {
        let states = self.picture(age).await?;
        let waits = Waits::seen_in(&states);
        let Some(cycle) = waits.closed_by(actor, name.as_str()) else { return Ok(None) };
        self.confirmed(&cycle, &waits).await
    }

    /// Looks again at the locks of a cycle: only waits that have lasted are a deadlock.
    async fn confirmed(
        self: &Arc<Self>,
        cycle: &Cycle,
        seen: &Waits<'_>,
    ) -> Result<Option<(Cycle, Vec<LockState>)>, StoreError> {
        let states = match seen.has_choice(cycle) {
            // It rests on what others than those of the cycle do.
            true => self.contended().await?,
            false => self.look_at(&seen.locks_of(cycle)).await?,
        };
        let again = Waits::seen_in(&states);
        let lasts = again.confirms(cycle, seen);
        Ok(lasts.then(|| (cycle.clone(), seen.locks_of(cycle))))
    }

    /// These locks again.
    async fn look_at(self: &Arc<Self>, locks: &[LockState]) -> Result<Vec<LockState>, StoreError> {
        let mut states: Vec<LockState> = Vec::new();
        for lock in locks {
            if states.iter().all(|state| state.name != lock.name)
                && let Ok(name) = LockName::new(&lock.name)
            {
                states.push(self.inspect(name).await?);
            }
        }
        self.add_own(&mut states);
        Ok(states)
    }

    /// What [`contended`](Self::contended) told somebody here, so old at most, or tells now: however many look, the store is
    /// asked a few times a second.
    async fn picture(self: &Arc<Self>, age: Duration) -> Result<Arc<Vec<LockState>>, StoreError> {
        let asked = self.clock.now();
        loop {
            let now = self.clock.now();
            let rest = {
                let mut picture = self.pictured();
                if let Some((at, states)) = &picture.last
                    && (*at > asked || !age.is_zero() && asked.since(*at) <= age)
                {
                    return Ok(states.clone());
                }
                let apart = PICTURES_APART.max(2 * picture.took);
                let rest = picture.begun.map(|begun| apart.saturating_sub(now.since(begun)));
                let rest = rest.filter(|rest| !rest.is_zero());
                if rest.is_none() {
                    picture.begun = Some(now);
                }
                rest
            };
            if let Some(rest) = rest {
                pause(self, rest).await;
                continue;
            }
            let states = Arc::new(self.contended().await?);
            let mut picture = self.pictured();
            picture.took = self.clock.now().since(now);
            picture.last = Some((now, states.clone()));
            return Ok(states);
        }
    }

    fn pictured(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All locks that somebody waits for.
    async fn contended(self: &Arc<Self>) -> Result<Vec<LockState>, StoreError> {
        let (mut states, mut after): (Vec<LockState>, Option<LockName>) = (Vec::new(), None);
        loop {
            let (page, more) = self.clone().list("".into(), after, PAGE, true).await?;
            after = page.last().and_then(|state| LockName::new(&state.name).ok());
            states.extend(page);
            if !more || after.is_none() {
                break;
            }
        }
        // Where one of ours holds the lock and others of ours wait, the store knows of no line.
        for (name, _) in self.own_waiters() {
            if states.iter().all(|state| state.name != name.as_str()) {
                states.push(self.inspect(name).await?);
            }
        }
        self.add_own(&mut states);
        Ok(states)
    }

    /// Puts those into the lines who wait inside this process, by their age, behind the one of it whom the store knows:
    /// that picture is a moment old, and ages alone would tell a different order each time.
    fn add_own(&self, states: &mut [LockState]) {
        let mut own = self.own_waiters();
        own.sort_by_key(|(_, waiter)| std::cmp::Reverse(waiter.waited));
        for (name, waiter) in own {
            let Some(state) = states.iter_mut().find(|state| state.name == name.as_str()) else { continue };
            let first = self.line.first(&name).and_then(|first| first.claim.actor);
            let known = state.waiters.iter().position(|other| first.is_some() && other.actor == first);
            let known = known.map_or(0, |place| place + 1);
            let younger = state.waiters[known..].iter().position(|other| other.waited < waiter.waited);
            state.waiters.insert(younger.map_or(state.waiters.len(), |place| known + place), waiter);
        }
    }

    /// Who waits here for somebody's sake, and is in no store's line.
    fn own_waiters(&self) -> Vec<(LockName, Waiter)> {
        let courses: Vec<Arc<Course>> = self.registry().courses.values().cloned().collect();
        let waiting = courses.iter().filter_map(|course| Some((course.claim.name.clone(), course.waits_unseen()?)));
        waiting.collect()
    }
}

/// Waits for the lock, or until that wait has closed a cycle and it is its actor's to give way, if that was asked for.
pub(crate) async fn acquired(course: &Arc<Course>) -> Result<(), AcquireError> {
    let mut acquired = pin!(poll_fn(|context| course.poll_acquired(context)));
    let Some(actor) = course.terms.actor.as_ref().filter(|actor| actor.fails_on_deadlock()) else {
        return acquired.await;
    };
    let mut closed = pin!(closed(&course.quorum, course, actor));
    poll_fn(|context| match acquired.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(answer),
        Poll::Pending => closed.as_mut().poll(context).map(|cycle| Err(AcquireError::Deadlock { cycle })),
    })
    .await
}

async fn closed(quorum: &Arc<Quorum>, course: &Arc<Course>, actor: &Actor) -> Vec<LockState> {
    let mut known: Option<(Vec<ActorId>, Moment)> = None;
    // Its own wait has to be in the first.
    let mut age = Duration::ZERO;
    loop {
        poll_fn(|context| course.poll_waiting(context)).await;
        // Who holds nothing is waited for by nobody. What a store cannot say now it may say the next time.
        let found =
            if actor.may_hold() { quorum.closed_by(actor.id(), &course.claim.name, age).await } else { Ok(None) };
        age = FRESH;
        known = match found {
            Ok(Some((cycle, locks))) => {
                let (members, now) = (cycle.iter().map(|wait| wait.by).collect::<Vec<_>>(), quorum.clock.now());
                let since = known.filter(|(others, _)| *others == members).map_or(now, |(_, since)| since);
                let turn = u32::try_from(turn_to_give_way(&cycle, actor.id())).unwrap_or(u32::MAX);
                if now.since(since) >= GRACE.saturating_mul(turn) {
                    return locks;
                }
                Some((members, since))
            }
            _ => None,
        };
        pause(quorum, LOOK_EVERY).await;
    }
}

fn pause(quorum: &Quorum, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let bell = Bell::at(&quorum.clock, quorum.clock.now().plus(span));
    Box::pin(
        async move { poll_fn(|context| if bell.has_rung(context) { Poll::Ready(()) } else { Poll::Pending }).await },
    )
}
