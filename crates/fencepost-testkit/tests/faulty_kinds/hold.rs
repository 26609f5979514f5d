//! A hold of any kind, and what a worker may want.

use std::pin::{Pin, pin};
use std::time::Duration;

use fencepost_core::{
    AcquireError, Actor, FencingToken, Grant, Guard, Lock, Locks, Permit, ReleaseOutcome, SharedToken, YieldRequest,
};
use fencepost_testkit::poll;

/// What is left of the semaphore's permits is what others want.
pub(crate) const PERMITS: u32 = 3;

/// One grant of one lock in the store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Grip {
    pub(crate) name: String,
    pub(crate) token: u64,
    pub(crate) shared: bool,
}

impl Grip {
    fn new(name: impl Into<String>, token: FencingToken, shared: bool) -> Self {
        Self { name: name.into(), token: token.as_u64(), shared }
    }
}

pub(crate) trait Hold {
    fn grips(&self) -> Vec<Grip>;
    fn is_held(&self) -> bool;
    fn remaining(&self) -> Duration;
    /// The next request to let go.
    fn hears(&self) -> Option<YieldRequest>;
    /// Releases it. An answer that takes its time is not waited for.
    fn release(self: Box<Self>) -> Option<ReleaseOutcome>;
    /// As a crash does: nobody releases it. Only of single locks.
    fn crash(self: Box<Self>) -> bool;
}

macro_rules! hold {
    ($grant:ty, $guard:ident => $grips:expr, $crash:expr) => {
        impl Hold for Guard<$grant> {
            fn grips(&self) -> Vec<Grip> {
                let $guard = self;
                $grips
            }

            fn is_held(&self) -> bool {
                Guard::is_held(self)
            }

            fn remaining(&self) -> Duration {
                Guard::remaining(self)
            }

            fn hears(&self) -> Option<YieldRequest> {
                poll::once(pin!(self.yield_requested()))
            }

            fn release(self: Box<Self>) -> Option<ReleaseOutcome> {
                poll::once(pin!(Guard::release(*self))).and_then(Result::ok)
            }

            fn crash(self: Box<Self>) -> bool {
                let crash: fn(Self) -> bool = $crash;
                crash(*self)
            }
        }
    };
}

hold!(FencingToken, guard => vec![Grip::new(guard.name(), guard.token(), false)], |guard| {
    drop(guard.leak());
    true
});
hold!(SharedToken, guard => {
    let token: FencingToken = guard.token().to_string().trim_start_matches('r').parse().expect("a number");
    vec![Grip::new(guard.name(), token, true)]
}, |guard| {
    drop(guard.leak());
    true
});
hold!(std::collections::BTreeMap<String, FencingToken>, guard => {
    guard.tokens().iter().map(|(name, token)| Grip::new(name, *token, false)).collect()
}, |_| false);
hold!(Vec<Permit>, guard => {
    guard.permits().iter().map(|permit| {
        assert!(permit.slot < PERMITS, "there is no permit {}", permit.slot);
        Grip::new(format!("{}/permit#{}", guard.name(), permit.slot), permit.token, false)
    }).collect()
}, |_| false);

/// What is to be acquired.
#[derive(Clone, Debug)]
pub(crate) enum Want {
    Writer(&'static str),
    Reader(&'static str),
    Several(Vec<&'static str>),
    Permits(u32),
}

impl Want {
    /// How many locks of the store that takes.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Writer(_) | Self::Reader(_) => 1,
            Self::Several(names) => names.len(),
            Self::Permits(take) => *take as usize,
        }
    }
}

/// How.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    /// `None`: for ever.
    pub(crate) wait: Option<Duration>,
    pub(crate) unfair: bool,
    pub(crate) delay: Duration,
    pub(crate) actor: Option<Actor>,
}

pub(crate) type Acquiring = Pin<Box<dyn Future<Output = Result<Box<dyn Hold>, AcquireError>>>>;

/// Starts to acquire.
pub(crate) fn acquire(locks: &Locks, want: &Want, manner: &Manner) -> Acquiring {
    match want {
        Want::Writer(name) => begin(locks.lock(*name), manner),
        Want::Reader(name) => begin(locks.lock(*name).shared(), manner),
        Want::Several(names) => begin(locks.all_of(names.clone()), manner),
        Want::Permits(take) => begin(locks.semaphore("s", PERMITS).take(*take), manner),
    }
}

fn begin<G: Grant>(lock: Lock<G>, manner: &Manner) -> Acquiring
where
    Guard<G>: Hold,
{
    let lock = match manner.wait {
        Some(wait) => lock.wait_at_most(wait),
        None => lock.wait_forever(),
    };
    let lock = lock.lock_delay(manner.delay);
    let lock = if manner.unfair { lock.unfair() } else { lock };
    let lock = manner.actor.iter().fold(lock, Lock::by);
    Box::pin(async move { Ok(Box::new(lock.acquire().await?) as Box<dyn Hold>) })
}
