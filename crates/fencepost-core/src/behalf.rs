//! Locks on behalf of others: what a service needs that has no guards, only leases that others keep.
//!
//! Whoever stands behind such a claim is no part of this process. So it waits in the store's line and not in the
//! process's own, where others could see only the first; its actor enters nothing again here; and its owner may be
//! chosen, so that a request that is repeated, perhaps at another replica, is the same claim.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::bell::Bell;
use crate::error::{AcquireError, Invalid, NodeVote, ReleaseOutcome, RenewError, StoreError};
use crate::grant::{Grant, Single};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::lock::Lock;
use crate::locks::{Locks, checked};
use crate::name::{LockName, Owner};
use crate::quorum::{Takeover, Terms, acquired};
use crate::share::Share;
use crate::state::{Holder, LockState, YieldRequest};
use crate::store::Claim;
use crate::token::FencingToken;

/// A release that is not confirmed at once is sent again: whoever asked for it is answered after so long.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(2);

/// How a claim is made for somebody else.
#[derive(Clone, Default)]
pub struct OnBehalf {
    owner: Option<Owners>,
    pub(crate) ticket: Option<FencingToken>,
    pub(crate) repeats: bool,
    told: Option<Told>,
}

type Owners = Arc<dyn Fn(&LockName) -> Owner + Send + Sync>;
type Told = Arc<dyn Fn(InLine) + Send + Sync>;

/// Somebody else has the lock, and the claim is in line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InLine {
    /// Who has it, as far as the store said.
    pub holder: Option<Holder>,
    /// The place in line, where the store tells it.
    pub ticket: Option<FencingToken>,
}

/// A lease that was kept for one more ttl.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renewed {
    /// Until validity ends.
    pub remaining: Duration,
    /// Somebody asks for the lock.
    pub asked: Option<YieldRequest>,
}

impl OnBehalf {
    /// Under these secrets: each name of one acquisition needs its own, because stores tell claims apart by them. Default:
    /// new ones.
    #[must_use]
    pub fn owner(mut self, of: impl Fn(&LockName) -> Owner + Send + Sync + 'static) -> Self {
        self.owner = Some(Arc::new(of));
        self
    }

    pub(crate) fn owner_of(&self, name: &LockName) -> Option<Owner> {
        self.owner.as_ref().map(|of| of(name))
    }

    /// With a place in line that the store told before. Default: behind all others.
    #[must_use]
    pub fn ticket(mut self, ticket: Option<FencingToken>) -> Self {
        self.ticket = ticket;
        self
    }

    /// The claim may be asked for again, here or elsewhere, with the same owner. So nothing is released by giving up, which
    /// could free what the repeat was granted: what is dropped, and a wait that ends, leave their place and what was
    /// granted to their leases: the place for seconds, a grant for its ttl, also one that a release took along just when
    /// its client went. Only an explicit release frees. Default: no.
    #[must_use]
    pub fn repeats(mut self) -> Self {
        self.repeats = true;
        self
    }

    /// Is told once, as soon as the claim is in line.
    #[must_use]
    pub fn tell(mut self, told: impl Fn(InLine) + Send + Sync + 'static) -> Self {
        self.told = Some(Arc::new(told));
        self
    }
}

impl fmt::Debug for OnBehalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnBehalf").field("repeats", &self.repeats).finish_non_exhaustive()
    }
}

/// The lock behind one permit of a semaphore.
pub fn permit_name(semaphore: &str, slot: u32) -> Result<LockName, Invalid> {
    LockName::permit(semaphore, slot)
}

impl<G: Grant> Lock<G> {
    /// For somebody who is no part of this process.
    pub fn on_behalf(mut self, of: OnBehalf) -> Self {
        self.behalf = Some(of);
        self
    }

    /// Its ttl.
    pub fn lease_time(&self) -> Duration {
        self.ttl
    }

    /// Its label.
    pub fn label_shown(&self) -> &str {
        &self.label
    }

    /// Its name. Whoever asks on behalf of others may name a part of a semaphore: theirs is the semaphore.
    pub(crate) fn checked_name(&self) -> Result<LockName, Invalid> {
        if self.behalf.is_some() { LockName::new(&self.name) } else { LockName::of_user(&self.name) }
    }

    /// One share of a single lock.
    pub(crate) async fn share(&self, claim: Claim, terms: Terms) -> Result<Share, AcquireError> {
        let told = self.behalf.as_ref().and_then(|behalf| behalf.told.clone());
        let Some(mut told) = told.map(Some) else { return Share::enter(&self.quorum, claim, terms).await };
        let share = Share::start(&self.quorum, claim, terms)?;
        {
            let mut acquired = pin!(acquired(&share.course));
            poll_fn(|context| {
                let done = acquired.as_mut().poll(context);
                if done.is_pending()
                    && told.is_some()
                    && share.course.poll_waiting(context).is_ready()
                    && let Some(told) = told.take()
                {
                    told(InLine { holder: share.course.holder(), ticket: share.course.ticket() });
                }
                done
            })
            .await?;
        }
        Ok(share)
    }
}

impl<G: Grant> Guard<G> {
    /// Stops renewing, and makes data of all that the guard rests on: one lease for each lock, in the order of names or
    /// slots.
    pub fn leak_all(self) -> Vec<Lease> {
        self.into_shares()
            .into_iter()
            .map(|mut share| {
                share.abandon();
                let claim = &share.course.claim;
                Lease::new(claim.name.clone(), claim.owner, share.token(), claim.ttl, claim.delay)
            })
            .collect()
    }
}

impl Locks {
    /// Renews a lease once, and leaves it as data.
    pub async fn renew_lease<G: Single>(&self, lease: &Lease<G>) -> Result<Renewed, RenewError> {
        let guard = self.adopt(lease).await?;
        let remaining = guard.remaining();
        let asked = {
            let mut asked = pin!(guard.yield_requested());
            poll_fn(|context| Poll::Ready(asked.as_mut().poll(context))).await
        };
        drop(guard.leak());
        Ok(Renewed { remaining, asked: if let Poll::Ready(asked) = asked { Some(asked) } else { None } })
    }

    /// Ends a lease, and no newer grant of the same owner. Nothing is renewed before, so a lease that is over is not brought
    /// back. If it was `renewed`, such a request may still be under way: the store then refuses the late one.
    ///
    /// # Cancel safety
    /// Dropped, the release goes on. It is sent as soon as this future is first polled.
    pub async fn release_lease<G: Single>(
        &self,
        lease: &Lease<G>,
        renewed: bool,
    ) -> Result<ReleaseOutcome, StoreError> {
        self.end(lease, if renewed { Takeover::Renewed } else { Takeover::There }).await
    }

    /// Ends whatever the owner of a lease has or waits for, whatever the token of the lease: for an owner whose value serves
    /// one claim only, and who may not have heard of a grant yet.
    ///
    /// # Cancel safety
    /// As that of [`release_lease`](Self::release_lease).
    pub async fn release_owner<G: Single>(&self, lease: &Lease<G>) -> Result<ReleaseOutcome, StoreError> {
        self.end(lease, Takeover::Whole).await
    }

    async fn end<G: Single>(&self, lease: &Lease<G>, takeover: Takeover) -> Result<ReleaseOutcome, StoreError> {
        let course = Guard::forsake(self.quorum(), self.defaults(), lease, takeover)?;
        let clock = &self.quorum().clock;
        let bell = Bell::at(clock, clock.now().plus(CONFIRMED_WITHIN.min(course.claim.ttl / 2)));
        poll_fn(|context| {
            let rung = bell.has_rung(context);
            course.poll_confirmed(rung, context)
        })
        .await
    }

    /// One page of [`list`](Self::list): at most so many, after that name, and whether there may be more. `contended`:
    /// only locks that somebody waits for.
    pub async fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
        contended: bool,
    ) -> Result<(Vec<LockState>, bool), StoreError> {
        let after = after.map(|after| checked(after, "list")).transpose()?;
        (**self.quorum()).clone().list(prefix.into(), after, limit, contended).await
    }

    /// How each node of the store is: whether it answers, and how fast.
    pub async fn nodes(&self) -> Vec<NodeVote> {
        match LockName::new("fencepost") {
            Ok(any) => self.quorum().probe(&any).await,
            Err(_) => Vec::new(),
        }
    }

    /// [`ask_to_yield`](Self::ask_to_yield) in the name of somebody else.
    pub async fn ask_to_yield_by(&self, name: &str, by: &str, note: &str) -> Result<Option<Holder>, StoreError> {
        self.ask_in_the_name_of(name, by, note).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Waker;

    use super::*;
    use crate::blocking::Blocking as _;
    use crate::clock::Moment;
    use crate::error::StoreErrorKind;
    use crate::store::{self, Abilities, Listening, Mailbox, Memory, Post, Reply, Step, Store, Trouble};

    const OWNER: [u8; 20] = [7; 20];

    fn mine() -> OnBehalf {
        OnBehalf::default().owner(|_| Owner::from_bytes(OWNER))
    }

    fn memory() -> Locks {
        store::connect(|at| Ok(vec![Memory::new(at.clock)])).block().expect("opens")
    }

    fn seen(locks: &Locks, name: &str) -> (usize, usize) {
        let state = locks.inspect(name).block().expect("read");
        (state.holders.len(), state.waiters.len())
    }

    #[test]
    fn a_claim_that_may_be_repeated_is_freed_by_a_release_only() {
        let locks = memory();
        let lock = locks.lock("a").on_behalf(mine().repeats());
        let first = lock.acquire().block().expect("free");
        let token = first.token();
        drop(first);
        assert_eq!(seen(&locks, "a"), (1, 0), "it may be held through another replica");
        let again = lock.acquire().block().expect("its own");
        assert_eq!(again.token(), token);
        again.release().block().expect("an answer");
        assert_eq!(seen(&locks, "a"), (0, 0));

        drop(locks.lock("a").on_behalf(mine()).acquire().block().expect("free"));
        assert_eq!(seen(&locks, "a"), (0, 0), "any other is given back at once");
    }

    #[test]
    fn a_wait_that_is_given_up_leaves_the_line_at_once_unless_it_may_be_repeated() {
        let locks = memory();
        let _held = locks.lock("a").acquire().block().expect("free");
        for (behalf, left) in [(mine(), 0), (mine().repeats(), 1)] {
            let lock = locks.lock("a").wait_forever().on_behalf(behalf);
            let mut waits = Box::pin(lock.acquire());
            assert!(waits.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(seen(&locks, "a"), (1, 1));
            drop(waits);
            assert_eq!(seen(&locks, "a"), (1, left));
        }
    }

    #[test]
    fn a_release_takes_along_who_waits_here_for_its_whole_ttl() {
        let locks = memory();
        let lock = locks.lock("a").manual_renewal().wait_forever();
        let held = lock.clone().acquire().block().expect("free").leak();
        let waits =
            |number: u8| lock.clone().on_behalf(OnBehalf::default().owner(move |_| Owner::from_bytes([number; 20])));
        let (first, second) = (waits(1), waits(2));
        let (mut first, mut second) = (Box::pin(first.acquire()), Box::pin(second.acquire()));
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending() && second.as_mut().poll(&mut context).is_pending());
        assert_eq!(locks.release_lease(&held, false).block().expect("an answer"), ReleaseOutcome::Freed);
        let Poll::Ready(Ok(guard)) = first.as_mut().poll(&mut context) else { panic!("it was the first in line") };
        // Handed over by its place in line alone, it would have three seconds.
        assert!(guard.remaining() > Duration::from_secs(20), "{:?}", guard.remaining());
        assert!(guard.token() > held.token() && second.as_mut().poll(&mut context).is_pending());
        assert_eq!(seen(&locks, "a"), (1, 1));
        // Who gives up is not taken along.
        drop(second);
        assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
        assert_eq!(seen(&locks, "a"), (0, 0));
    }

    /// A store that lets something happen just before it hears of a release that carries another claim along.
    struct Before(Memory, Arc<Mutex<Option<Happening>>>);

    type Happening = Box<dyn FnOnce() + Send>;

    impl Store for Before {
        fn abilities(&self) -> Abilities {
            self.0.abilities()
        }

        fn label(&self) -> String {
            self.0.label()
        }

        fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
            if matches!(step, Step::Release { then: Some(_), .. }) {
                let happening = self.1.lock().expect("no panic").take();
                happening.into_iter().for_each(|happening| happening());
            }
            self.0.submit(step, deadline, reply);
        }

        fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
            self.0.listen(claim, reply)
        }

        fn clock(&self) -> Option<FencingToken> {
            self.0.clock()
        }
    }

    #[test]
    fn who_goes_away_while_it_is_taken_along_leaves_nothing_behind() {
        let happens: Arc<Mutex<Option<Happening>>> = Arc::default();
        let hook = happens.clone();
        let opened = store::connect(move |at| Ok(vec![Before(Memory::new(at.clock), hook)]));
        let locks = opened.block().expect("opens");
        let lock = locks.lock("a").manual_renewal().wait_forever();
        let held = lock.clone().acquire().block().expect("free").leak();
        let waits = lock.on_behalf(mine());
        let mut waits = Box::pin(async move { waits.acquire().await });
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        *happens.lock().expect("no panic") = Some(Box::new(move || drop(waits)));
        assert_eq!(locks.release_lease(&held, false).block().expect("an answer"), ReleaseOutcome::Freed);
        assert_eq!(seen(&locks, "a"), (0, 0), "nobody is there to hold it");
    }

    #[test]
    fn a_lease_is_renewed_and_released_by_whoever_has_it_as_data() {
        let locks = memory();
        let lease = locks.lock("a").on_behalf(mine()).manual_renewal().acquire().block().expect("free").leak();
        locks.ask_to_yield_by("a", "an operator", "now").block().expect("an answer").expect("somebody has it");
        let renewed = locks.renew_lease(&lease).block().expect("held");
        assert_eq!(renewed.asked.map(|asked| asked.by).as_deref(), Some("an operator"));
        assert!(renewed.remaining > Duration::from_secs(20));
        assert_eq!(locks.release_lease(&lease, false).block().expect("an answer"), ReleaseOutcome::Freed);
        assert_eq!(locks.release_lease(&lease, false).block().expect("an answer"), ReleaseOutcome::NotHeld(None));
        assert_eq!(seen(&locks, "a"), (0, 0), "a release brings nothing back");
    }

    /// A store whose answer to the first release does not arrive.
    struct Unheard(Memory, Mutex<bool>);

    struct Nowhere;

    impl Mailbox for Nowhere {
        fn post(self: Arc<Self>, _: Post) {}
    }

    impl Store for Unheard {
        fn abilities(&self) -> Abilities {
            self.0.abilities()
        }

        fn label(&self) -> String {
            self.0.label()
        }

        fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
            let is_first = matches!(step, Step::Release { .. })
                && !std::mem::replace(&mut *self.1.lock().expect("no panic"), true);
            if is_first {
                self.0.submit(step, deadline, Reply::new(Arc::new(Nowhere), 0, 0));
                return reply.answer(Err(Trouble::new(StoreErrorKind::Unreachable, "the link broke")));
            }
            self.0.submit(step, deadline, reply);
        }

        fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
            self.0.listen(claim, reply)
        }

        fn clock(&self) -> Option<FencingToken> {
            self.0.clock()
        }
    }

    #[test]
    fn not_held_proves_no_loss_if_an_earlier_sending_of_the_release_was_not_answered() {
        let opened = store::connect(|at| Ok(vec![Unheard(Memory::new(at.clock), Mutex::default())]));
        let locks = opened.block().expect("opens");
        let lease = locks.lock("a").on_behalf(mine()).manual_renewal().acquire().block().expect("free").leak();
        assert_eq!(locks.release_lease(&lease, false).block().expect("an answer"), ReleaseOutcome::Unproven);
        assert_eq!(locks.release_lease(&lease, false).block().expect("an answer"), ReleaseOutcome::NotHeld(None));
    }
}
