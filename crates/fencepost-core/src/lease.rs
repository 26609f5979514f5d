//! Leases as data, and the one formula that dates them.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use crate::clock::Moment;
use crate::error::Invalid;
use crate::grant::Single;
use crate::name::{LockName, Owner};
use crate::store::Mode;
use crate::token::FencingToken;

/// Until when a grant may be believed in: dated from *before* the request left, less what two clocks may drift apart.
///
/// Every deadline of a hold comes from here.
pub(crate) fn valid_until(sent: Moment, life: Duration) -> Moment {
    sent.plus(life).minus(drift(life))
}

fn drift(life: Duration) -> Duration {
    life / 100 + Duration::from_millis(2)
}

/// A lease as data: a hold that another process can take over with [`Locks::adopt`](crate::Locks::adopt).
///
/// It carries the owner's secret: `Debug` hides it, only [`expose`](Lease::expose) writes it, [`FromStr`] reads it.
#[must_use = "a lease that nobody adopts keeps the lock until its ttl ends"]
#[derive(Clone, PartialEq, Eq)]
pub struct Lease<G: Single = FencingToken> {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) ttl: Duration,
    pub(crate) delay: Duration,
    grant: PhantomData<G>,
}

/// How the text of a lease starts: what it is, and its version.
const MARK: &str = "fencepost-lease-1";

impl<G: Single> Lease<G> {
    pub(crate) fn new(name: LockName, owner: Owner, token: FencingToken, ttl: Duration, delay: Duration) -> Self {
        Self { name, owner, token, ttl, delay, grant: PhantomData }
    }

    /// A lease from its parts, as a service is told them. Nobody knows whether it is held until it is renewed.
    pub fn of(name: LockName, owner: Owner, token: FencingToken, ttl: Duration, delay: Duration) -> Self {
        Self::new(name, owner, token, ttl, delay)
    }

    /// The lock.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The secret of the hold.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The lock delay.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// The token of the hold; for a reader the number behind the `r`.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The lease as one line of text, with its secret: whoever reads it can renew and release the lock.
    pub fn expose(&self) -> String {
        let mode = kind::<G>();
        let (owner, token, ttl_ms) = (self.owner.expose(), self.token, self.ttl.as_millis());
        let delay = if self.delay.is_zero() { String::new() } else { format!("+{}", self.delay.as_millis()) };
        format!("{MARK}:{mode}:{owner}:{token}:{ttl_ms}{delay}:{}", self.name)
    }
}

/// The kind of lock, as text.
fn kind<G: Single>() -> &'static str {
    match (G::MODE, G::FENCED) {
        (Mode::Exclusive, true) => "x",
        (Mode::Exclusive, false) => "u",
        (Mode::Shared, _) => "s",
    }
}

impl<G: Single> FromStr for Lease<G> {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        // The text is a secret: an error never repeats it.
        let refuse =
            || Invalid::new("lease", "(hidden)", "pass the text that `Lease::expose` wrote for this kind of lock");
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let [MARK, mode, owner, token, ttl_ms, name] = parts[..] else { return Err(refuse()) };
        let fits = mode == kind::<G>();
        let owner = Owner::from_exposed(owner).filter(|_| fits).ok_or_else(refuse)?;
        let (ttl_ms, delay_ms) = ttl_ms.split_once('+').unwrap_or((ttl_ms, "0"));
        let span = |ms: &str| ms.parse().map(Duration::from_millis).map_err(|_| refuse());
        let token = token.parse().map_err(|_| refuse())?;
        Ok(Self::new(LockName::new(name)?, owner, token, span(ttl_ms)?, span(delay_ms)?))
    }
}

impl<G: Single> fmt::Debug for Lease<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("name", &self.name).field("token", &self.token).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::SharedToken;

    #[test]
    fn validity_is_dated_from_the_request_less_one_percent_and_two_milliseconds() {
        let sent = Moment::from_nanos(5_000_000_000);
        assert_eq!(valid_until(sent, Duration::from_secs(10)).since(sent), Duration::from_millis(9_898));
        assert_eq!(valid_until(sent, Duration::from_millis(1)), sent.minus(Duration::from_micros(1_010)));
    }

    #[test]
    fn a_lease_survives_as_text_and_keeps_its_secret_elsewhere() {
        let owner = Owner::random().expect("random");
        let token = FencingToken::from_number(9).expect("a token");
        let name = LockName::new("a:b:c").expect("valid");
        let lease: Lease = Lease::new(name.clone(), owner, token, Duration::from_secs(30), Duration::ZERO);
        assert_eq!(lease.expose().parse::<Lease>().expect("its own text"), lease);
        let delayed: Lease = Lease::new(name, owner, token, Duration::from_secs(30), Duration::from_secs(5));
        assert_eq!(delayed.expose().parse::<Lease>().expect("its own text"), delayed);
        assert!(!format!("{lease:?}").contains(&owner.expose()));
        assert!(lease.expose().parse::<Lease<SharedToken>>().is_err(), "a writer's lease is not a reader's");
        let error = format!("{}x", lease.expose().replace(":9:", ":nine:")).parse::<Lease>().expect_err("refused");
        assert!(!error.to_string().contains(&owner.expose()));
    }
}
