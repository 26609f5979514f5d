//! The guard: held, until it is not.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use crate::error::{Lost, NodeVote, ReleaseOutcome, RenewError, StoreError, StoreErrorKind};
use crate::grant::{Grant, Permit, Single};
use crate::handle::Handle;
use crate::lease::Lease;
use crate::locks::Defaults;
use crate::quorum::{Course, Patience, Quorum, Takeover, Terms};
use crate::share::Share;
use crate::state::YieldRequest;
use crate::store::{Claim, Turn};
use crate::token::{FencingToken, SharedToken};

/// A lock that is held now.
///
/// **Dropping a guard only schedules its release**: it needs no runtime, and normally the lock is free a round trip
/// later. It does not block, unless it was the last handle of its connection: then it waits until live nodes have
/// answered, for at most 100 ms ([`drain_within`](crate::Connect::drain_within)). [`release`](Guard::release) is the way
/// to know. Renewal ends with the guard: on drop, panic, leak and release alike.
///
/// A lease can be lost at any time: the process was paused, the network cut, an operator forced it. Use
/// [`Lock::run`](crate::Lock::run) or watch [`lost`](Guard::lost), and show the [token](Guard::token) to the resource,
/// which alone can refuse a late write.
#[must_use = "dropping the guard gives the lock up"]
pub struct Guard<G: Grant = FencingToken> {
    shares: Shares,
    grant: G,
    /// Named when somebody asks.
    votes: OnceLock<Vec<NodeVote>>,
}

/// What a guard rests on. Each ends when it is dropped.
enum Shares {
    One(Share),
    Several { name: Box<str>, shares: Vec<Share> },
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

impl Shares {
    fn as_slice(&self) -> &[Share] {
        match self {
            Self::One(share) => std::slice::from_ref(share),
            Self::Several { shares, .. } => shares,
        }
    }
}

impl<G: Single> Guard<G> {
    pub(crate) fn single(share: Share, grant: G) -> Self {
        Self { shares: Shares::One(share), grant, votes: OnceLock::new() }
    }

    /// The claim behind a lease, and how it is kept.
    fn of_lease(defaults: &Defaults, lease: &Lease<G>) -> (Claim, Terms) {
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
            patience: Patience::None { by: None },
            margin: lease.ttl / 10,
            max_hold: G::MAX_HOLD,
            automatic: true,
            actor: None,
            direct: true,
            repeats: false,
        };
        (claim, terms)
    }

    /// Ends a lease without renewing it first. The release is on its way.
    pub(crate) fn forsake(
        quorum: &Arc<Quorum>,
        defaults: &Defaults,
        lease: &Lease<G>,
        takeover: Takeover,
    ) -> Result<Arc<Course>, StoreError> {
        let (claim, terms) = Self::of_lease(defaults, lease);
        let course =
            Course::hold(quorum, claim, lease.token, terms, takeover).ok_or_else(|| shutting_down("release"))?;
        course.leave();
        Ok(course)
    }

    pub(crate) async fn adopt(handle: &Handle, defaults: &Defaults, lease: &Lease<G>) -> Result<Self, RenewError> {
        let (claim, terms) = Self::of_lease(defaults, lease);
        let course =
            Course::hold(handle, claim, lease.token, terms, Takeover::There).ok_or_else(|| shutting_down("adopt"))?;
        course.renew();
        let mut unproven = Unproven(Some(course.clone()));
        poll_fn(|context| course.poll_renewed(1, context)).await?;
        unproven.0 = None;
        Ok(Self::single(Share::alone(handle, course), G::from_token(lease.token)))
    }

    /// Stops renewing and makes the lease data: for another process, or to block the name for the rest of the ttl.
    /// Other holds of the same actor count as lost: the lease is not theirs any more.
    pub fn leak(self) -> Lease<G> {
        let Shares::One(mut share) = self.shares else { unreachable!("BUG: a single lock has one share") };
        share.abandon();
        let claim = &share.course.claim;
        Lease::new(claim.name.clone(), claim.owner, share.token(), claim.ttl, claim.delay)
    }
}

fn shutting_down(operation: &'static str) -> StoreError {
    let message = "this connection is shutting down; it takes no new claims";
    StoreError::new(StoreErrorKind::Unsupported, operation, message)
}

impl<G: Grant> Guard<G> {
    pub(crate) fn into_shares(self) -> Vec<Share> {
        match self.shares {
            Shares::One(share) => vec![share],
            Shares::Several { shares, .. } => shares,
        }
    }

    /// What it proves.
    pub(crate) fn grant(&self) -> &G {
        &self.grant
    }

    pub(crate) fn several(name: &str, shares: Vec<Share>, grant: G) -> Self {
        Self { shares: Shares::Several { name: name.into(), shares }, grant, votes: OnceLock::new() }
    }

    /// The lock, or the semaphore; of several locks all names, joined by commas.
    pub fn name(&self) -> &str {
        match &self.shares {
            Shares::One(share) => share.course.claim.name.as_str(),
            Shares::Several { name, .. } => name,
        }
    }

    fn courses(&self) -> impl Iterator<Item = &Arc<Course>> {
        self.shares.as_slice().iter().map(|share| &share.course)
    }

    /// Until validity ends; zero once lost. Asked from a clock that counts sleep, each time. Of several leases: the
    /// least.
    pub fn remaining(&self) -> Duration {
        self.courses().map(|course| course.remaining()).min().unwrap_or_default()
    }

    /// By our own clock and all we have heard. It does not replace the check at the resource.
    pub fn is_held(&self) -> bool {
        self.ensure_held().is_ok()
    }

    /// The same for `?`.
    pub fn ensure_held(&self) -> Result<(), Lost> {
        self.courses().find_map(Course::lost).map_or(Ok(()), Err)
    }

    /// Resolves a margin *before* validity ends, or as soon as the loss is known; a lost guard stays lost. Of several
    /// leases the first loss counts: a part is not what was asked for.
    ///
    /// # Cancel safety
    /// Dropped and called again, it tells the same.
    pub async fn lost(&self) -> Lost {
        poll_fn(|context| {
            let mut polls = self.courses().map(|course| course.poll_lost(context));
            polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Somebody wants the lock ([`Locks::ask_to_yield`](crate::Locks::ask_to_yield)): resolves once per request, with the
    /// next renewal. The holder decides. Of several requests between two renewals the newest counts.
    ///
    /// # Cancel safety
    /// Dropped and called again, it misses nothing.
    pub async fn yield_requested(&self) -> YieldRequest {
        poll_fn(|context| {
            let mut polls = self.courses().map(|course| course.poll_yield_requested(context));
            polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Renews now; answers the time left. `Unknown` comes only while the old deadline stands: work on, try again.
    ///
    /// # Cancel safety
    /// Dropped, the renewal goes on.
    pub async fn renew(&self) -> Result<Duration, RenewError> {
        // All at once; a loss comes before what is only unknown.
        let rounds: Vec<(&Arc<Course>, u64)> = self.courses().map(|course| (course, course.renew())).collect();
        let (mut least, mut unknown) = (Duration::MAX, None);
        for (course, round) in rounds {
            match poll_fn(|context| course.poll_renewed(round, context)).await {
                Ok(remaining) => least = least.min(remaining),
                Err(RenewError::Unknown(error)) => unknown = unknown.or(Some(error)),
                Err(lost) => return Err(lost),
            }
        }
        unknown.map_or(Ok(least), |error| Err(RenewError::Unknown(error)))
    }

    /// Ends the hold. `Err`: nobody confirmed it yet; the releaser goes on trying until the ttl is over.
    ///
    /// Of several leases all are released, and the answer is the worst: `Err`, then `NotHeld`, then `Unproven`, then
    /// `StillHeld` with the most holds left on one name.
    ///
    /// # Cancel safety
    /// Dropped, the release goes on. It is sent as soon as this future is first polled, or dropped.
    pub async fn release(self) -> Result<ReleaseOutcome, StoreError> {
        let mut shares = match self.shares {
            Shares::One(share) => return share.left().await,
            Shares::Several { shares, .. } => shares,
        };
        // All at once.
        let asked: Vec<Option<ReleaseOutcome>> = shares.iter_mut().map(Share::leave).collect();
        let mut worst = Ok(ReleaseOutcome::Freed);
        for (share, said) in shares.iter().zip(asked) {
            let outcome = match said {
                Some(outcome) => Ok(outcome),
                None => poll_fn(|context| share.course.poll_left(context)).await,
            };
            worst = worse(worst, outcome);
        }
        worst
    }

    /// Which nodes granted, and how fast. One entry where one server decides; of several leases one after the other.
    pub fn votes(&self) -> &[NodeVote] {
        self.votes.get_or_init(|| {
            let heard = self.courses().filter_map(|course| Some((course, course.won()?)));
            heard.flat_map(|(course, (_, votes))| course.node_votes(&votes)).collect()
        })
    }

    /// The owner's secret as text, for a child process that shall be able to prove the hold; of several leases each,
    /// joined by commas.
    pub fn expose_owner(&self) -> String {
        let owners: Vec<String> = self.courses().map(|course| course.claim.owner.expose()).collect();
        owners.join(",")
    }
}

/// How a release of several ended.
fn worse(
    one: Result<ReleaseOutcome, StoreError>,
    other: Result<ReleaseOutcome, StoreError>,
) -> Result<ReleaseOutcome, StoreError> {
    let rank = |outcome: &Result<ReleaseOutcome, StoreError>| match outcome {
        Err(_) => (4, 0),
        Ok(ReleaseOutcome::NotHeld(_)) => (3, 0),
        Ok(ReleaseOutcome::Unproven) => (2, 0),
        Ok(ReleaseOutcome::StillHeld { count }) => (1, *count),
        Ok(ReleaseOutcome::Freed) => (0, 0),
    };
    if rank(&other) > rank(&one) { other } else { one }
}

impl Guard {
    /// The token to show to every resource that this lock protects.
    pub fn token(&self) -> FencingToken {
        self.grant
    }

    /// From writer to reader without letting go: nobody writes in between, and readers who come next may come in at
    /// once. The number of the token stays; as a reader's it is good for no write.
    ///
    /// Resolves when the store, of several nodes a majority, has heard of it. If none has in time, the guard is a
    /// reader's all the same; the store may keep readers out until one of the next renewals, which go on telling it.
    ///
    /// Where other holds of the same [actor](crate::Lock::by) write, its lease stays a writer's until the last of them
    /// ends or is downgraded.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, store};
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let writer = locks.lock("prices").acquire().block()?;
    /// let reader = writer.downgrade().block()?;
    /// assert!(locks.lock("prices").shared().try_acquire().block()?.is_some());
    /// assert!(locks.lock("prices").try_acquire().block()?.is_none());
    /// # drop(reader);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancel safety
    /// Dropped, it releases the lock, as dropping the guard does.
    ///
    /// # Errors
    /// [`Lost`] if the hold was lost before; the guard is gone then.
    pub async fn downgrade(self) -> Result<Guard<SharedToken>, Lost> {
        let Shares::One(share) = self.shares else { unreachable!("BUG: a single lock has one share") };
        Ok(Guard::single(share.downgraded().await?, SharedToken::new(self.grant)))
    }
}

impl Guard<SharedToken> {
    /// A reader's token: no fence takes it for a write.
    pub fn token(&self) -> SharedToken {
        self.grant
    }
}

impl Guard<BTreeMap<String, FencingToken>> {
    /// The token of each name.
    pub fn tokens(&self) -> &BTreeMap<String, FencingToken> {
        &self.grant
    }
}

impl Guard<Vec<Permit>> {
    /// The permits, by slot.
    pub fn permits(&self) -> &[Permit] {
        &self.grant
    }

    /// The first: all there is, unless [`take`](crate::Lock::take) said more.
    pub fn permit(&self) -> Permit {
        self.grant[0]
    }
}

impl<G: Grant> fmt::Debug for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens: Vec<FencingToken> = self.shares.as_slice().iter().map(Share::token).collect();
        f.debug_struct("Guard").field("name", &self.name()).field("tokens", &tokens).finish_non_exhaustive()
    }
}
