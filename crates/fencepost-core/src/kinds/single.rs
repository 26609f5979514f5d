//! One name.

use super::Kind;
use crate::error::AcquireError;
use crate::grant::Single;
use crate::guard::Guard;
use crate::lock::{Lock, Manner, Wait};
use crate::token::{FencingToken, SharedToken};

async fn acquire<G: Single<Wanted = ()>>(lock: &Lock<G>, wait: Wait) -> Result<Guard<G>, AcquireError> {
    lock.check(wait)?;
    let name = lock.checked_name()?;
    let manner = Manner { mode: G::MODE, fenced: G::FENCED, in_order: false };
    let (claim, terms) = lock.claim(name, manner, lock.patience(wait))?;
    let share = lock.share(claim, terms).await?;
    let grant = G::from_token(share.token());
    Ok(Guard::single(share, grant))
}

macro_rules! single {
    ($($grant:ty),+) => {$(
        impl Kind for $grant {
            type Wanted = ();
            fn acquire(lock: &Lock<Self>, wait: Wait) -> impl Future<Output = Result<Guard<Self>, AcquireError>> + Send {
                acquire(lock, wait)
            }
        }
    )+};
}

single!(FencingToken, SharedToken, ());
