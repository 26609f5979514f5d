//! The guard: held, until it is not.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::{AcquireError, Lost, NodeVote, ReleaseOutcome, RenewError, StoreError, StoreErrorKind, Vote};
use crate::grant::Grant;
use crate::lease::Lease;
use crate::lock::MAX_HOLD;
use crate::locks::Defaults;
use crate::quorum::{Course, Patience, Quorum, Terms};
use crate::state::YieldRequest;
use crate::store::{Claim, Turn};
use crate::token::{FencingToken, SharedToken};

/// A lock that is held now.
///
/// **Dropping a guard only schedules its release**: it never blocks and needs no runtime; normally the lock is free a
/// round trip later. [`release`](Guard::release) is the way to know. Renewal ends with the guard: on drop, panic, leak
/// and release alike.
///
/// A lease can be lost at any time: the process was paused, the network cut, an operator forced it. Use
/// [`Lock::run`](crate::Lock::run) or watch [`lost`](Guard::lost), and show the [token](Guard::token) to the resource,
/// which alone can refuse a late write.
#[must_use = "dropping the guard gives the lock up"]
pub struct Guard<G: Grant = FencingToken> {
    course: Arc<Course>,
    token: FencingToken,
    heard: Vec<(Duration, Vote)>,
    /// Named when somebody asks.
    votes: OnceLock<Vec<NodeVote>>,
    /// Ended by `release` or `leak`: then `Drop` has nothing left to do.
    ended: bool,
    grant: PhantomData<G>,
}

/// Ends a claim unless the future that uses it came to its end: what makes acquiring cancel-safe.
struct Unfinished(Option<Arc<Course>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(course) = self.0.take() {
            course.leave();
        }
    }
}

/// Lets go of an adopted lease unless it proved to be ours: until then giving up must not release it, nor renew it.
struct Unproven(Option<Arc<Course>>);

impl Drop for Unproven {
    fn drop(&mut self) {
        if let Some(course) = self.0.take() {
            course.abandon();
        }
    }
}

impl<G: Grant> Guard<G> {
    pub(crate) async fn acquired(course: Arc<Course>) -> Result<Self, AcquireError> {
        let mut unfinished = Unfinished(Some(course.clone()));
        poll_fn(|context| course.poll_acquired(context)).await?;
        unfinished.0 = None;
        Ok(Self::new(course))
    }

    pub(crate) async fn adopt(quorum: &Arc<Quorum>, defaults: &Defaults, lease: &Lease<G>) -> Result<Self, RenewError> {
        let claim = Claim {
            name: lease.name.clone(),
            owner: lease.owner,
            label: defaults.label.clone(),
            mode: G::MODE,
            ttl: lease.ttl,
            turn: Turn::AfterOthers,
            fenced: G::FENCED,
            actor: None,
            delay: lease.delay,
        };
        let terms = Terms {
            patience: Patience::None,
            margin: lease.ttl / 10,
            max_hold: Some(MAX_HOLD),
            automatic: true,
            actor: None,
        };
        let course = Course::adopt(quorum, claim, lease.token, terms).ok_or_else(|| {
            let message = "this connection is shutting down; it takes no new claims";
            StoreError::new(StoreErrorKind::Unsupported, "adopt", message)
        })?;
        let mut unproven = Unproven(Some(course.clone()));
        poll_fn(|context| course.poll_renewed(1, context)).await?;
        unproven.0 = None;
        Ok(Self::new(course))
    }

    fn new(course: Arc<Course>) -> Self {
        let (token, heard) = course.won().expect("BUG: a guard is made of a lock that was won");
        Self { course, token, heard, votes: OnceLock::new(), ended: false, grant: PhantomData }
    }

    /// The lock.
    pub fn name(&self) -> &str {
        self.course.claim.name.as_str()
    }

    /// Until validity ends; zero once lost. Asked from a clock that counts sleep, each time.
    pub fn remaining(&self) -> Duration {
        self.course.remaining()
    }

    /// By our own clock and all we have heard. It does not replace the check at the resource.
    pub fn is_held(&self) -> bool {
        self.course.lost().is_none()
    }

    /// The same for `?`.
    pub fn ensure_held(&self) -> Result<(), Lost> {
        self.course.lost().map_or(Ok(()), Err)
    }

    /// Resolves a margin *before* validity ends, or as soon as the loss is known; a lost guard stays lost.
    ///
    /// # Cancel safety
    /// Dropped and called again, it tells the same.
    pub async fn lost(&self) -> Lost {
        poll_fn(|context| self.course.poll_lost(context)).await
    }

    /// Somebody wants the lock ([`Locks::ask_to_yield`](crate::Locks::ask_to_yield)): resolves once per request, with the
    /// next renewal. The holder decides. Of several requests between two renewals the newest counts.
    ///
    /// # Cancel safety
    /// Dropped and called again, it misses nothing.
    pub async fn yield_requested(&self) -> YieldRequest {
        poll_fn(|context| self.course.poll_yield_requested(context)).await
    }

    /// Renews now; answers the time left. `Unknown` comes only while the old deadline stands: work on, try again.
    ///
    /// # Cancel safety
    /// Dropped, the renewal goes on.
    pub async fn renew(&self) -> Result<Duration, RenewError> {
        let round = self.course.renew();
        poll_fn(|context| self.course.poll_renewed(round, context)).await
    }

    /// Ends the hold. `Err`: nobody confirmed it yet; the releaser goes on trying until the ttl is over.
    ///
    /// # Cancel safety
    /// Dropped, the release goes on. It is sent as soon as this future is first polled, or dropped.
    pub async fn release(mut self) -> Result<ReleaseOutcome, StoreError> {
        self.ended = true;
        let course = self.course.clone();
        course.leave();
        poll_fn(|context| course.poll_left(context)).await
    }

    /// Stops renewing and makes the lease data: for another process, or to block the name for the rest of the ttl.
    pub fn leak(mut self) -> Lease<G> {
        self.ended = true;
        self.course.abandon();
        let claim = &self.course.claim;
        Lease::new(claim.name.clone(), claim.owner, self.token, claim.ttl, claim.delay)
    }

    /// Which nodes granted, and how fast. One entry where one server decides.
    pub fn votes(&self) -> &[NodeVote] {
        self.votes.get_or_init(|| self.course.node_votes(&self.heard))
    }

    /// The owner's secret as text, for a child process that shall be able to prove the hold.
    pub fn expose_owner(&self) -> String {
        self.course.claim.owner.expose()
    }
}

impl Guard {
    /// The token to show to every resource that this lock protects.
    pub fn token(&self) -> FencingToken {
        self.token
    }
}

impl Guard<SharedToken> {
    /// A reader's token: no fence takes it for a write.
    pub fn token(&self) -> SharedToken {
        SharedToken::from_token(self.token)
    }
}

impl<G: Grant> Drop for Guard<G> {
    fn drop(&mut self) {
        if !self.ended {
            self.course.leave();
        }
    }
}

impl<G: Grant> fmt::Debug for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("name", &self.name()).field("token", &self.token).finish_non_exhaustive()
    }
}
