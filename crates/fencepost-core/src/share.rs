//! One hold of a guard: a lease of its own, or a share in one that its actor has.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::bell::Bell;
use crate::error::{AcquireError, Lost, ReleaseOutcome, StoreError};
use crate::handle::Handle;
use crate::quorum::{Course, Entry, Patience, Stay, Terms, acquired};
use crate::store::{Claim, Mode};
use crate::token::FencingToken;

/// Ends when dropped, also before it was granted: what makes acquiring cancel-safe.
pub(crate) struct Share {
    pub(crate) course: Arc<Course>,
    stay: Option<Arc<Stay>>,
    /// Of this hold; the lease it rests on may be a writer's all the same.
    mode: Mode,
    ended: bool,
    /// Of the guard or future that this is of: the last field, for it may wait for the release.
    _handle: Handle,
}

impl Share {
    /// A lease that nobody else rests on.
    pub(crate) fn alone(handle: &Handle, course: Arc<Course>) -> Self {
        let mode = course.claim.mode;
        Self { course, stay: None, mode, ended: false, _handle: handle.clone() }
    }

    fn of(handle: &Handle, stay: Arc<Stay>, mode: Mode) -> Self {
        Self { course: stay.course.clone(), stay: Some(stay), mode, ended: false, _handle: handle.clone() }
    }

    /// Asks the store, whatever the claim's actor has.
    pub(crate) async fn ask(handle: &Handle, claim: Claim, terms: Terms) -> Result<Self, AcquireError> {
        Self::start(handle, claim, terms)?.granted().await
    }

    /// Asks the store, and is not granted yet.
    pub(crate) fn start(handle: &Handle, claim: Claim, terms: Terms) -> Result<Self, AcquireError> {
        let course = Course::start(handle, claim, terms).ok_or(AcquireError::ShuttingDown)?;
        Ok(Self::alone(handle, course))
    }

    /// Enters what the claim's actor has, and asks the store for what it has not.
    pub(crate) async fn enter(handle: &Handle, claim: Claim, terms: Terms) -> Result<Self, AcquireError> {
        let Some(actor) = claim.actor.filter(|_| !terms.direct) else { return Self::ask(handle, claim, terms).await };
        let mode = claim.mode;
        let mut wanted = (claim, terms);
        loop {
            match handle.stays.enter(handle, actor, wanted.0, wanted.1)? {
                Entry::First(stay) => {
                    let share = Self::of(handle, stay, mode);
                    share.course.begin();
                    return share.granted().await;
                }
                Entry::Again(stay, unused) => {
                    let patience = unused.1.patience;
                    match Self::of(handle, stay, mode).joined(patience).await {
                        // Whom we joined would wait no longer. We would.
                        Err(AcquireError::Busy { .. }) if patience.waits() && !patience.is_over(handle.clock.now()) => {
                            wanted = *unused;
                        }
                        Err(AcquireError::Busy { holder, .. }) => {
                            let waited = patience.waited(handle.clock.now());
                            return Err(AcquireError::Busy { waited, holder });
                        }
                        done => return done,
                    }
                }
            }
        }
    }

    /// What can be entered without waiting: what the claim's actor has, or a claim that is to be begun.
    pub(crate) fn enrol(handle: &Handle, claim: Claim, terms: Terms) -> Result<Try, AcquireError> {
        let patience = terms.patience;
        let Some(actor) = claim.actor.filter(|_| !terms.direct) else {
            let course = Course::enrol(handle, claim, terms).ok_or(AcquireError::ShuttingDown)?;
            return Ok(Try { share: Self::alone(handle, course), is_new: true, patience });
        };
        let mode = claim.mode;
        Ok(match handle.stays.enter(handle, actor, claim, terms)? {
            Entry::First(stay) => Try { share: Self::of(handle, stay, mode), is_new: true, patience },
            Entry::Again(stay, _) => Try { share: Self::of(handle, stay, mode), is_new: false, patience },
        })
    }

    async fn granted(self) -> Result<Self, AcquireError> {
        acquired(&self.course).await?;
        Ok(self)
    }

    /// Another task of this actor asks already. We wait for it as long as we would have waited ourselves.
    async fn joined(self, patience: Patience) -> Result<Self, AcquireError> {
        let bell = patience.until().map(|end| Bell::at(self.course.clock(), end));
        poll_fn(|context| {
            let is_over = bell.as_ref().is_some_and(|bell| bell.has_rung(context));
            match self.course.poll_joined(is_over || !patience.waits(), context) {
                Poll::Pending if is_over => Poll::Ready(Err(AcquireError::Store(StoreError::no_answer("acquire")))),
                answer => answer,
            }
        })
        .await?;
        Ok(self)
    }

    pub(crate) fn token(&self) -> FencingToken {
        let (token, _) = self.course.won().expect("BUG: a share is used once it was granted");
        token
    }

    pub(crate) fn is_held(&self) -> bool {
        self.course.lost().is_none()
    }

    /// Leaves renewal to the user, unless others rest on the lease, who count on it.
    pub(crate) fn renew_by_hand(&self) {
        if self.stay.as_ref().is_none_or(|stay| stay.holds() == 1) {
            self.course.renew_by_hand();
            // The first of several may have waited for the last: all start with a whole ttl.
            self.course.renew();
        }
    }

    /// Makes a writing hold a reading one, and the lease with it unless others of the actor write.
    pub(crate) async fn downgraded(mut self) -> Result<Self, Lost> {
        self.mode = Mode::Shared;
        if self.stay.as_ref().is_none_or(Stay::downgrade) {
            self.course.downgrade();
            poll_fn(|context| self.course.poll_downgraded(context)).await?;
        }
        self.course.lost().map_or(Ok(self), Err)
    }

    /// Ends this hold, and the lease with the last of them.
    pub(crate) async fn left(mut self) -> Result<ReleaseOutcome, StoreError> {
        match self.leave() {
            Some(outcome) => Ok(outcome),
            None => poll_fn(|context| self.course.poll_left(context)).await,
        }
    }

    /// Ends this hold. `None`: it was the last, and the release is on its way.
    pub(crate) fn leave(&mut self) -> Option<ReleaseOutcome> {
        if self.ended {
            return None;
        }
        self.ended = true;
        let left = self.stay.as_ref().map_or(0, |stay| stay.leave(self.mode));
        if left == 0 {
            self.course.leave();
            return None;
        }
        Some(match self.course.lost() {
            Some(lost) => ReleaseOutcome::NotHeld(Some(lost.reason)),
            None => ReleaseOutcome::StillHeld { count: left },
        })
    }

    /// Lets go of the lease without releasing it, for every hold that rests on it.
    pub(crate) fn abandon(&mut self) {
        self.ended = true;
        self.stay.iter().for_each(Stay::close);
        self.course.abandon();
    }
}

/// One of several that are tried at once.
pub(crate) struct Try {
    share: Share,
    is_new: bool,
    patience: Patience,
}

impl Try {
    /// What has to be begun before anybody answers.
    pub(crate) fn to_begin(&self) -> Option<Arc<Course>> {
        self.is_new.then(|| self.share.course.clone())
    }

    pub(crate) async fn answer(self) -> Result<Share, AcquireError> {
        if self.is_new { self.share.granted().await } else { self.share.joined(self.patience).await }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if !self.ended && self.course.may_go_on_elsewhere() {
            return self.abandon();
        }
        self.leave();
    }
}
