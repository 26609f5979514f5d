//! Several names at once: all or nothing.
//!
//! All are tried at once, by one step where one place has them all. If one is held, what comes before it in the order of
//! names is kept, what comes after it is given back, and the rest is taken one by one in that order: whoever waits holds
//! lower names only, so nobody waits in a circle.

use super::Kind;
use super::together::{Boxed, all};
use crate::error::{AcquireError, Invalid};
use crate::grant::Tokens;
use crate::guard::Guard;
use crate::lock::{Lock, Manner, Wait};
use crate::name::LockName;
use crate::quorum::{Patience, Terms, begin_all};
use crate::share::{Share, Try};
use crate::state::Holder;
use crate::store::Claim;

/// The most names at once.
const NAMES_MAX: usize = 256;

/// The names, as the user gave them.
#[derive(Clone, Debug)]
pub struct Names(pub(crate) Vec<String>);

impl Names {
    /// As they are shown.
    pub(crate) fn title(names: &[String]) -> String {
        names.join(", ")
    }

    /// Valid, different, in order.
    fn checked(&self) -> Result<Vec<LockName>, Invalid> {
        if self.0.is_empty() {
            return Err(Invalid::new("names", "", "name at least one lock"));
        }
        if self.0.len() > NAMES_MAX {
            let cure = format!("at most {NAMES_MAX} at once: use one lock for the whole group");
            return Err(Invalid::new("names", format!("{} names", self.0.len()), cure));
        }
        let mut names = self.0.iter().map(LockName::of_user).collect::<Result<Vec<_>, _>>()?;
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Invalid::new("names", pair[0].as_str(), "name each lock once")),
            None => Ok(names),
        }
    }
}

impl Kind for Tokens {
    type Wanted = Names;

    async fn acquire(lock: &Lock<Self>, wait: Wait) -> Result<Guard<Self>, AcquireError> {
        lock.check(wait)?;
        let names = lock.wanted.checked()?;
        let patience = lock.patience_for_several(wait);
        let shares = gather(lock, &names, patience).await?;
        lock.hand_renewal_over(&shares);
        let tokens = names.iter().zip(&shares).map(|(name, share)| (name.to_string(), share.token())).collect();
        Ok(Guard::several(&lock.name, shares, tokens))
    }
}

async fn gather(lock: &Lock<Tokens>, names: &[LockName], patience: Patience) -> Result<Vec<Share>, AcquireError> {
    loop {
        let mut shares = Vec::with_capacity(names.len());
        let (mut busy, mut holder) = (false, None);
        for answer in try_all(lock, names, patience.trying()).await? {
            match answer {
                Ok(share) if !busy => shares.push(share),
                // It goes back: somebody has a lower name.
                Ok(share) => drop(share),
                Err(AcquireError::Busy { holder: found, .. }) => (busy, holder) = (true, holder.or(found)),
                // Whoever waits for one rides that out.
                Err(error) if lock.rides_out(patience, &error) => busy = true,
                Err(error) => return Err(error),
            }
        }
        if busy {
            let now = lock.quorum.clock.now();
            if !patience.waits() || patience.is_over(now) {
                return Err(AcquireError::Busy { waited: patience.waited(now), holder });
            }
            for name in &names[shares.len()..] {
                shares.push(enter(lock, name, patience).await.map_err(|error| naming(error, &holder))?);
            }
        }
        if shares.iter().all(Share::is_held) {
            return Ok(shares);
        }
        // One that came first was lost while we waited for another: all or nothing, so from the start.
        let now = lock.quorum.clock.now();
        if !patience.waits() || patience.is_over(now) {
            return Err(AcquireError::Busy { waited: patience.waited(now), holder: None });
        }
    }
}

/// Who kept us from it, if the last one we asked about did not say.
fn naming(error: AcquireError, seen: &Option<Box<Holder>>) -> AcquireError {
    match error {
        AcquireError::Busy { waited, holder: None } => AcquireError::Busy { waited, holder: seen.clone() },
        other => other,
    }
}

/// Tries all at once, without waiting for anybody.
async fn try_all(
    lock: &Lock<Tokens>,
    names: &[LockName],
    patience: Patience,
) -> Result<Vec<Result<Share, AcquireError>>, AcquireError> {
    let tries = names.iter().map(|name| {
        let (claim, terms) = claim(lock, name, patience)?;
        Share::enrol(&lock.quorum, claim, terms)
    });
    let tries = tries.collect::<Result<Vec<Try>, AcquireError>>()?;
    begin_all(&tries.iter().filter_map(Try::to_begin).collect::<Vec<_>>());
    Ok(all(tries.into_iter().map(|one| Box::pin(one.answer()) as Boxed<'_, _>).collect()).await)
}

async fn enter(lock: &Lock<Tokens>, name: &LockName, patience: Patience) -> Result<Share, AcquireError> {
    let (claim, terms) = claim(lock, name, patience)?;
    Share::enter(&lock.quorum, claim, terms).await
}

fn claim(lock: &Lock<Tokens>, name: &LockName, patience: Patience) -> Result<(Claim, Terms), AcquireError> {
    let (claim, mut terms) = lock.claim(name.clone(), Manner::EXCLUSIVE, patience)?;
    // Until all are there nobody else can renew them.
    terms.automatic = true;
    Ok((claim, terms))
}
