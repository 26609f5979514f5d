//! Leadership: one name, and what its leader publishes.

use super::Kind;
use crate::election::Candidacy;
use crate::error::AcquireError;
use crate::grant::{Single as _, Term};
use crate::guard::Guard;
use crate::lock::{Lock, Manner, Wait};
use crate::name::{checked_payload, with_payload};

impl Kind for Term {
    type Wanted = Candidacy;

    async fn acquire(lock: &Lock<Self>, wait: Wait) -> Result<Guard<Self>, AcquireError> {
        lock.check(wait)?;
        let payload = checked_payload(&lock.wanted.payload)?;
        let name = lock.checked_name()?;
        let (mut claim, terms) = lock.claim(name, Manner::EXCLUSIVE, lock.patience(wait))?;
        claim.label = with_payload(claim.label, &payload);
        let share = lock.share(claim, terms).await?;
        lock.wanted.standing.leads(&share.course);
        let term = Self::from_token(share.token());
        Ok(Guard::single(share, term))
    }
}
