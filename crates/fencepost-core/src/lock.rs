//! A lock: a name and its settings. Holds nothing.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::actor::Actor;
use crate::behalf::OnBehalf;
use crate::error::{AcquireError, Invalid, RunError};
use crate::grant::{Grant, Permit};
use crate::guard::Guard;
use crate::handle::Handle;
use crate::locks::Defaults;
use crate::name::{LockName, checked_label};
use crate::quorum::{Patience, TTL_MAX, Terms};
use crate::share::Share;
use crate::span::spoken;
use crate::store::{Claim, Mode, Place, Turn};
use crate::token::{FencingToken, SharedToken};

/// Locks are held for at most so long, unless the lock says otherwise.
pub(crate) const MAX_HOLD: Duration = Duration::from_secs(24 * 3600);
/// The longest wait that may be asked for; longer is `wait_forever`.
const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// A name and its settings: keep it, clone it, acquire from it again and again, each time as a new owner.
///
/// Bad names and limits are reported by `acquire`, as [`Invalid`], so that the chain stays fluent.
///
/// # Default
/// - ttl: 30 s, or as [`Connect`](crate::Connect) says; the watchdog renews at a third
/// - wait: not at all, or as `Connect` says
/// - in line, first come first served
/// - `max_hold`: 24 h
/// - `loss_margin`: a tenth of the ttl
/// - `lock_delay`: none
#[must_use = "a lock does nothing until acquired"]
pub struct Lock<G: Grant = FencingToken> {
    pub(crate) quorum: Handle,
    /// Of several names: all of them, to be shown.
    pub(crate) name: String,
    pub(crate) wanted: G::Wanted,
    pub(crate) label: String,
    pub(crate) ttl: Duration,
    wait: Wait,
    unfair: bool,
    manual: bool,
    max_hold: Option<Duration>,
    loss_margin: Option<Duration>,
    delay: Duration,
    actor: Option<Actor>,
    pub(crate) behalf: Option<OnBehalf>,
}

/// How long an acquisition waits.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    AtMost(Duration),
    Forever,
}

/// What a kind of lock says of a claim.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) mode: Mode,
    pub(crate) fenced: bool,
    /// In line, also for an unfair lock.
    pub(crate) in_order: bool,
}

impl Manner {
    pub(crate) const EXCLUSIVE: Self = Self { mode: Mode::Exclusive, fenced: true, in_order: false };
}

impl<G: Grant> Lock<G> {
    pub(crate) fn new(quorum: Handle, defaults: &Defaults, name: String, wanted: G::Wanted) -> Self {
        Self {
            quorum,
            name,
            wanted,
            label: defaults.label.to_string(),
            ttl: defaults.ttl,
            wait: Wait::AtMost(defaults.wait.unwrap_or_default()),
            unfair: false,
            manual: false,
            max_hold: Some(MAX_HOLD),
            loss_margin: None,
            delay: Duration::ZERO,
            actor: None,
            behalf: None,
        }
    }
}

impl Lock {
    /// Many readers or one writer; writers do not starve, because a waiting writer stops new readers.
    pub fn shared(self) -> Lock<SharedToken> {
        self.granting()
    }

    /// The last microsecond, for work that may overlap now and then: a guard with no token to show, and no place in
    /// line. On Redis it is plain `SET NX PX` and compare-and-delete; a late request may hold the lock for a ttl.
    pub fn unfenced(self) -> Lock<()> {
        self.granting()
    }

    fn granting<G: Grant<Wanted = ()>>(self) -> Lock<G> {
        let Self {
            quorum,
            name,
            wanted,
            label,
            ttl,
            wait,
            unfair,
            manual,
            max_hold,
            loss_margin,
            delay,
            actor,
            behalf,
        } = self;
        Lock { quorum, name, wanted, label, ttl, wait, unfair, manual, max_hold, loss_margin, delay, actor, behalf }
    }
}

impl Lock<Vec<Permit>> {
    /// So many permits at once, all or nothing. Default 1.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, store};
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block().unwrap();
    /// let guard = locks.semaphore("exports", 5).take(2).acquire().block()?;
    /// assert_eq!(guard.permits().len(), 2);
    /// # Ok::<(), fencepost_core::AcquireError>(())
    /// ```
    pub fn take(mut self, permits: u32) -> Self {
        self.wanted.take = permits;
        self
    }
}

impl<G: Grant> Lock<G> {
    /// How long others wait after we crash, not how long we may work: the watchdog renews at a third. Default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Default: as `Connect` says, else not at all. A waiter outlasts every failure that passes: it fails early only if no
    /// majority of the nodes can vote before its limit, such as after a refused password.
    pub fn wait_at_most(mut self, wait: Duration) -> Self {
        self.wait = Wait::AtMost(wait);
        self
    }

    /// Waits as long as others hold it. If the store is away for a minute, or for the ttl if that is longer, the wait fails;
    /// a quarantine with a known end does not count.
    pub fn wait_forever(mut self) -> Self {
        self.wait = Wait::Forever;
        self
    }

    /// Who we are, for `show` and for errors; never a secret. Default: as `Connect` says.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// No place in the line: random back-off, may overtake and be overtaken. Default: first come, first served. Of a
    /// semaphore, it may take a free permit before those who wait; it waits in line.
    pub fn unfair(mut self) -> Self {
        self.unfair = true;
        self
    }

    /// No watchdog: the lease ends after one ttl unless you [`renew`](Guard::renew). Default: renewed by itself.
    pub fn manual_renewal(mut self) -> Self {
        self.manual = true;
        self
    }

    /// The hold ends here (`Lost(HoldLimit)`): no lock can be renewed for ever by accident. Default 24 h.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.max_hold = Some(limit);
        self
    }

    /// `lost()` fires so long before validity ends. Default: a tenth of the ttl.
    pub fn loss_margin(mut self, margin: Duration) -> Self {
        self.loss_margin = Some(margin);
        self
    }

    /// A pause before a lock that was *not* released cleanly can be taken again, for resources that cannot check tokens:
    /// it begins when the lease ends, and a write that was under way has time to arrive. A crash, a lost hold and a
    /// leaked lease are no clean ends; a release frees at once, and so does [`force_release`](crate::Locks::force_release).
    /// Together with the ttl at most what the store takes as ttl. Default: none.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// On whose behalf. Default: nobody's, and then nothing is entered again. Its waits show in
    /// [`deadlocks`](crate::Locks::deadlocks).
    ///
    /// What this actor holds through this connection or a clone of it, it enters again at once, without asking the
    /// store: one lease, one token, counted here. The settings of its first acquisition hold. Each
    /// [`release`](Guard::release) but the last answers [`StillHeld`](crate::ReleaseOutcome::StillHeld); the lease is
    /// renewed until the last, and a loss is told to every hold. After a loss, or after the last release, acquiring is
    /// a new acquisition, with a new token.
    ///
    /// - A writer's actor that wants to read shares its own lease, which stays exclusive.
    /// - A reader's actor that wants to write is refused ([`Invalid`]): it would wait for itself.
    /// - Two tasks of one actor that acquire at the same time ask once, and both hold.
    /// - Permits of a semaphore are not entered again: each acquisition takes its own.
    ///
    /// ```
    /// use fencepost_core::{Actor, Blocking, ReleaseOutcome};
    /// # use fencepost_core::store;
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let me = Actor::new();
    /// let outer = locks.lock("orders").by(&me).acquire().block()?;
    /// let inner = locks.lock("orders").by(&me).acquire().block()?; // enters at once
    /// assert_eq!(inner.token(), outer.token());
    /// assert_eq!(inner.release().block()?, ReleaseOutcome::StillHeld { count: 1 });
    /// assert_eq!(outer.release().block()?, ReleaseOutcome::Freed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by(mut self, actor: &Actor) -> Self {
        self.actor = Some(actor.clone());
        self
    }

    /// Waits in line, as long as told. How a hold can be lost is said at [`Guard`].
    ///
    /// One store serves claims in the order in which they reach it. Of one process the first is in line there; those behind
    /// it stand for the time of their arrival, as the process knows the store's clock. Nodes that vote keep a line each, by
    /// the time of arrival; a claim that has not reached a majority of them yet may be overtaken
    /// ([`Acquired`](crate::EventKind::Acquired) tells the ticket).
    ///
    /// # Cancel safety
    /// Dropped, it leaves the line, and a grant on its way is given back.
    ///
    /// # Errors
    /// [`Busy`](AcquireError::Busy) if another held it for as long as this lock waits, which is not at all unless told.
    pub async fn acquire(&self) -> Result<Guard<G>, AcquireError> {
        self.acquire_within(self.wait).await
    }

    /// Never waits for another owner. `Ok(None)`: somebody else has it, or is in line. Busy is an answer, not an error.
    /// All requests for several names or permits together have the time of one answer; of three, where nodes vote.
    ///
    /// # Cancel safety
    /// Dropped, a grant on its way is given back.
    pub async fn try_acquire(&self) -> Result<Option<Guard<G>>, AcquireError> {
        match self.acquire_within(Wait::AtMost(Duration::ZERO)).await {
            Ok(guard) => Ok(Some(guard)),
            Err(AcquireError::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires, works, releases. On loss the work is dropped at its next await, *before* the lease ends.
    ///
    /// Loss is asked first at every poll, by the clock: a process that slept past its lease takes not one more step.
    /// What the work finished before the loss stands. Its own error comes back as [`RunError::Work`], whatever the
    /// release says; that is an event.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work and schedules the release.
    pub async fn run<T, E>(&self, work: impl AsyncFnOnce(&Guard<G>) -> Result<T, E>) -> Result<T, RunError<E>> {
        let guard = self.acquire().await.map_err(RunError::Acquire)?;
        let done = working(&guard, work(&guard)).await;
        let _ = guard.release().await;
        done
    }

    /// Of an election: it has time, and leads until it resigns.
    pub(crate) fn candidate(mut self, wait: Wait) -> Self {
        (self.wait, self.max_hold) = (wait, None);
        self
    }

    async fn acquire_within(&self, wait: Wait) -> Result<Guard<G>, AcquireError> {
        G::acquire(self, wait).await
    }

    /// How long to wait, counted from now.
    pub(crate) fn patience(&self, wait: Wait) -> Patience {
        let now = self.quorum.clock.now();
        match wait {
            Wait::AtMost(wait) if wait.is_zero() => Patience::None { by: None },
            Wait::AtMost(wait) => Patience::Until { began: now, end: now.plus(wait) },
            Wait::Forever => Patience::Endless { began: now },
        }
    }

    /// The same for a kind that sends several requests: one time for all of them.
    pub(crate) fn patience_for_several(&self, wait: Wait) -> Patience {
        let by = self.quorum.clock.now().plus(self.quorum.answers_within(self.ttl));
        self.patience(wait).or_by(by)
    }

    /// A claim on one name, by the settings of this lock.
    pub(crate) fn claim(
        &self,
        name: LockName,
        manner: Manner,
        patience: Patience,
    ) -> Result<(Claim, Terms), AcquireError> {
        let label = checked_label(&self.label)?;
        let behalf = self.behalf.as_ref();
        let owner = match behalf.and_then(|behalf| behalf.owner_of(&name)) {
            Some(owner) => owner,
            None => self.quorum.new_owner()?,
        };
        let turn = match patience {
            _ if (self.unfair && !manner.in_order) || !manner.fenced => Turn::Overtake,
            Patience::Until { .. } | Patience::Endless { .. } if self.quorum.abilities.wakes() => {
                let ticket = behalf.and_then(|behalf| behalf.ticket).or_else(|| self.quorum.ticket());
                Turn::InLine(Place { ticket, lease: self.quorum.waiter_lease(self.ttl) })
            }
            _ => Turn::AfterOthers,
        };
        let claim = Claim {
            name,
            owner,
            label,
            mode: manner.mode,
            ttl: self.ttl,
            turn,
            fenced: manner.fenced,
            actor: self.actor.as_ref().map(Actor::id),
            delay: self.delay,
        };
        let margin = self.margin();
        let actor = self.actor.clone();
        let (direct, repeats) = behalf.map_or((false, false), |behalf| (true, behalf.repeats));
        let automatic = !self.manual;
        Ok((claim, Terms { patience, margin, max_hold: self.max_hold, automatic, actor, direct, repeats }))
    }

    /// Trouble that whoever waits sits out, if there is time left.
    pub(crate) fn rides_out(&self, patience: Patience, error: &AcquireError) -> bool {
        matches!(error, AcquireError::Store(error) if self.quorum.may_recover(error, patience))
    }

    pub(crate) fn is_unfair(&self) -> bool {
        self.unfair
    }

    /// All of several is there: from now on the user renews, if that was asked for.
    pub(crate) fn hand_renewal_over(&self, shares: &[Share]) {
        if self.manual {
            shares.iter().for_each(Share::renew_by_hand);
        }
    }

    fn margin(&self) -> Duration {
        self.loss_margin.unwrap_or(self.ttl / 10)
    }

    /// Whether all settings are good.
    pub(crate) fn check(&self, wait: Wait) -> Result<(), Invalid> {
        checked_label(&self.label)?;
        let abilities = &self.quorum.abilities;
        let (least, most) = (abilities.smallest_ttl, abilities.largest_ttl.unwrap_or(TTL_MAX).min(TTL_MAX));
        if self.ttl < least || self.ttl > most {
            let cure = format!(
                "this store takes {} to {}; a lock is renewed while the work runs, so a short ttl is enough",
                spoken(least),
                spoken(most)
            );
            return Err(Invalid::new("ttl", spoken(self.ttl), cure));
        }
        if self.delay > most - self.ttl {
            let cure = format!("at most {}: with the ttl, this store takes {}", spoken(most - self.ttl), spoken(most));
            return Err(Invalid::new("lock_delay", spoken(self.delay), cure));
        }
        if self.margin() > self.ttl / 2 {
            let cure = format!("at most half of the ttl: {}", spoken(self.ttl / 2));
            return Err(Invalid::new("loss_margin", spoken(self.margin()), cure));
        }
        if self.max_hold.is_some_and(|limit| limit.is_zero()) {
            return Err(Invalid::new("max_hold", "0s", "give the work some time"));
        }
        match wait {
            Wait::AtMost(wait) if wait > WAIT_MAX => {
                Err(Invalid::new("wait_at_most", spoken(wait), "use wait_forever for more than a year"))
            }
            _ => Ok(()),
        }
    }
}

/// The work, until it ends or the hold is lost, which is asked first at every poll.
pub(crate) async fn working<G: Grant, T, E>(
    guard: &Guard<G>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, RunError<E>> {
    let (mut work, mut lost) = (pin!(work), pin!(guard.lost()));
    poll_fn(|context| match lost.as_mut().poll(context) {
        Poll::Ready(why) => Poll::Ready(Err(RunError::Lost(why))),
        Poll::Pending => work.as_mut().poll(context).map(|done| done.map_err(RunError::Work)),
    })
    .await
}

impl<G: Grant> Clone for Lock<G> {
    fn clone(&self) -> Self {
        Self {
            quorum: self.quorum.clone(),
            name: self.name.clone(),
            wanted: self.wanted.clone(),
            label: self.label.clone(),
            actor: self.actor.clone(),
            behalf: self.behalf.clone(),
            ..*self
        }
    }
}

impl<G: Grant> fmt::Debug for Lock<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.name).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
