//! Leader election: a lock whose holder leads.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::bell::Bell;
use crate::error::{AcquireError, ReleaseOutcome, RunError, StoreError};
use crate::event::Feed;
use crate::grant::Term;
use crate::guard::Guard;
use crate::lock::{Lock, working};
use crate::locks::checked;
use crate::quorum::Course;
use crate::state::Holder;
use crate::token::FencingToken;

/// A lock whose holder leads, with all settings of [`Lock`].
///
/// # Default
/// As for [`Lock`], but:
/// - wait: as long as it takes, or as [`Connect`](crate::Connect) says
/// - `max_hold`: none: a leader leads until it resigns or is lost
pub type Election = Lock<Term>;

/// Led now, with all signals of [`Guard`].
pub type Leadership = Guard<Term>;

/// Whoever observes looks this part of a ttl apart, within these bounds.
const LOOK_PART: u32 = 20;
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// What a candidate says besides the settings that all locks have.
#[derive(Clone, Default, Debug)]
pub struct Candidacy {
    pub(crate) payload: Arc<str>,
    pub(crate) standing: Standing,
}

impl Lock<Term> {
    /// Published with the leadership, such as the leader's address: at most 255 bytes, no control characters. Others see it
    /// as [`Holder::payload`]. Default: nothing.
    ///
    /// Redisson's layout (`?layout=redisson`) has no room for it.
    pub fn payload(mut self, payload: impl Into<String>) -> Self {
        self.wanted.payload = payload.into().into();
        self
    }

    /// [`acquire`](Lock::acquire) by its election name: waits in line until it leads.
    ///
    /// # Cancel safety
    /// Dropped, it is no candidate any more, and a leadership on its way is given back.
    ///
    /// # Errors
    /// As for `acquire`; [`Busy`](AcquireError::Busy) only if this election was told how long to wait.
    pub async fn campaign(&self) -> Result<Leadership, AcquireError> {
        self.acquire().await
    }

    /// Campaigns, works, and campaigns again whenever the leadership was lost; ends when the work ends by itself, and
    /// resigns then.
    ///
    /// On loss the work is dropped at its next await, *before* another can lead; loss is asked first at every poll, by the
    /// clock. What it wrote shows the [term](Leadership::term), so that a resource can refuse what comes late. A store
    /// that is away for a while is waited for; it is an error only if a person has to mend it.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, store};
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let election = locks.election("scheduler").payload("10.0.0.7:8080");
    /// let term = election.lead(async |leadership| Ok::<_, std::io::Error>(leadership.term())).block()?;
    /// assert!(election.leader().block()?.is_none(), "it resigned");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancel safety
    /// Dropped, it drops the work and resigns.
    pub async fn lead<T, E>(&self, mut work: impl AsyncFnMut(&Leadership) -> Result<T, E>) -> Result<T, RunError<E>> {
        loop {
            let leadership = match self.campaign().await {
                Ok(leadership) => leadership,
                Err(AcquireError::Store(error)) if error.is_retryable() => {
                    Bell::rest(&self.quorum.clock, self.look_pause()).await;
                    continue;
                }
                Err(error) => return Err(RunError::Acquire(error)),
            };
            match working(&leadership, work(&leadership)).await {
                Err(RunError::Lost(_)) => {}
                done => {
                    let _ = leadership.resign().await;
                    return done;
                }
            }
        }
    }

    /// Who leads now, as the store sees it.
    pub async fn leader(&self) -> Result<Option<Holder>, StoreError> {
        let name = checked(&self.name, "leader")?;
        Ok(self.quorum.inspect(name).await?.holders.into_iter().next())
    }

    /// Who leads now, then each change; `None`: nobody does. The candidates in line: [`Locks::inspect`](crate::Locks::inspect).
    ///
    /// It looks at the store, a twentieth of the ttl apart and at least every second, so a term that ends between two looks
    /// is not seen: terms only rise, and a gap tells. An error is an item too; the next one is asked for after a pause.
    pub fn observe(&self) -> Feed<Option<Holder>> {
        let (election, begun) = (self.clone(), Arc::new(AtomicBool::new(false)));
        Feed::endless(move |last: Option<&Option<Holder>>| {
            let (election, last, began) = (election.clone(), last.cloned(), begun.swap(true, Ordering::SeqCst));
            Box::pin(async move { election.changed(last, began).await })
        })
    }

    /// The first leader that is not the last one.
    async fn changed(self, last: Option<Option<Holder>>, mut began: bool) -> Result<Option<Holder>, StoreError> {
        let gist = |leader: &Option<Holder>| leader.as_ref().map(|leader| (leader.token, leader.label.clone()));
        loop {
            if began {
                Bell::rest(&self.quorum.clock, self.look_pause()).await;
            }
            began = true;
            let leader = self.leader().await?;
            if last.as_ref().map(gist) != Some(gist(&leader)) {
                return Ok(leader);
            }
        }
    }

    /// Whether this election, or a clone of it, leads now: for a readiness check that must not ask the store.
    pub fn standing(&self) -> Standing {
        self.wanted.standing.clone()
    }

    fn look_pause(&self) -> Duration {
        (self.ttl / LOOK_PART).clamp(LOOK_PAUSE.0, LOOK_PAUSE.1)
    }
}

impl Guard<Term> {
    /// A fencing token: show it to every resource that the leader writes to.
    pub fn term(&self) -> FencingToken {
        self.grant().token()
    }

    /// [`release`](Guard::release) by its election name: the next candidate leads now, not after the ttl.
    pub async fn resign(self) -> Result<ReleaseOutcome, StoreError> {
        self.release().await
    }
}

/// Whether this process leads, by its own clock and all it has heard: what a readiness check asks, as often as it likes.
///
/// It knows of the newest leadership of the [election](Lock::standing) it was taken from, and of that election's clones.
#[derive(Clone, Default)]
pub struct Standing(Arc<Mutex<Weak<Course>>>);

impl Standing {
    /// Leads now.
    pub fn is_leading(&self) -> bool {
        self.term().is_some()
    }

    /// The term that it leads in now.
    pub fn term(&self) -> Option<FencingToken> {
        let course = self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?;
        let (token, _) = course.won()?;
        let is_over = course.lost().is_some() || course.is_leaving() || course.is_past();
        (!is_over).then_some(token)
    }

    pub(crate) fn leads(&self, course: &Arc<Course>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(course);
    }
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").field("term", &self.term()).finish()
    }
}
