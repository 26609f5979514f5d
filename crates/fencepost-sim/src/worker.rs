//! What programs do: take locks of all kinds, work on what they protect, and let go, in one of many ways.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use fencepost_core::{AcquireError, Actor, FencingToken, Grant, Guard, Lock, Locks, Permit, SharedToken};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::history::Call;

use crate::flaw::Flaw;
use crate::net::{Hub, Parcel, Pid};
use crate::node::COUNTED;
use crate::process::number;
use crate::resource::{Errand, Slot};
use crate::time::{MILLI, Nanos, moment, nanos};

/// What a worker knows of its world.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) hub: Hub,
    pub(crate) pid: Pid,
    pub(crate) task: usize,
    pub(crate) ttl: Duration,
    pub(crate) delay: Duration,
    /// Only locks in line, so that turns can be checked.
    pub(crate) calm: bool,
    pub(crate) evicts: bool,
    pub(crate) flaw: Option<Flaw>,
}

/// Permits of the semaphore.
const PERMITS: u32 = 2;

impl Worker {
    /// Works until the world says stop.
    pub(crate) async fn run(self, locks: Locks, mut dice: Dice) {
        loop {
            self.sleep(dice.below(60 * MILLI)).await;
            if self.hub.net().stopping {
                return;
            }
            Box::pin(self.one(&locks, &mut dice)).await;
        }
    }

    async fn one(&self, locks: &Locks, dice: &mut Dice) {
        let name = if dice.per_mille(650) { "a" } else { "b" };
        let lock = locks.lock(name).lock_delay(self.delay);
        let wait = self.patience(dice);
        if self.calm {
            return match dice.below(5) {
                0 => self.go(lock.shared(), None, dice).await,
                _ => self.go(lock, None, dice).await,
            };
        }
        if self.flaw == Some(Flaw::CountingSemaphore) && dice.per_mille(500) {
            return self.go(locks.lock(COUNTED.0).unfair().shared(), wait, dice).await;
        }
        match dice.below(100) {
            0..50 => self.go(lock, wait, dice).await,
            50..58 => self.go(lock.unfair(), wait, dice).await,
            58..64 => self.go(lock.manual_renewal(), wait, dice).await,
            64..78 => self.go(lock.shared(), wait, dice).await,
            78..86 => self.go(locks.semaphore("s", PERMITS), wait, dice).await,
            86..91 => self.go(locks.all_of(["b", "a"]), wait, dice).await,
            91..96 => self.reenter(&lock.wait_at_most(self.ttl), dice).await,
            96..98 if self.evicts => drop(locks.force_release(name, "an operator").await),
            98 => drop(locks.ask_to_yield(name, "others wait").await),
            _ => {
                if let Ok(Some(guard)) = lock.try_acquire().await {
                    self.hold(guard, dice).await;
                }
            }
        }
    }

    /// How long to wait; `None`: for ever.
    fn patience(&self, dice: &mut Dice) -> Option<Duration> {
        match dice.below(10) {
            0..3 => None,
            3..9 => Some(Duration::from_nanos(50 * MILLI + dice.below(3 * nanos(self.ttl)))),
            _ => Some(Duration::from_millis(30)),
        }
    }

    /// Acquires, unless it changes its mind meanwhile, and holds.
    async fn go<G: Shown>(&self, lock: Lock<G>, wait: Option<Duration>, dice: &mut Dice) {
        let lock = wait.map_or_else(|| lock.clone().wait_forever(), |wait| lock.clone().wait_at_most(wait));
        let (began, still) = (self.now(), self.stood_still());
        let patience = if !self.calm && dice.per_mille(100) { dice.below(2 * nanos(self.ttl)) } else { Nanos::MAX };
        let mut acquiring = pin!(lock.acquire());
        let mut giving_up = pin!(self.sleep(patience));
        let acquired = poll_fn(|context| {
            if let Poll::Ready(done) = acquiring.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            if patience == Nanos::MAX { Poll::Pending } else { giving_up.as_mut().poll(context).map(|()| None) }
        })
        .await;
        let Some(done) = acquired else { return };
        if let Some(limit) = wait {
            let took = Duration::from_nanos(self.now() - began - (self.stood_still() - still));
            self.hub.ledger.open().calls.push(Call {
                process: number(self.pid),
                what: G::KIND,
                at: moment(self.now()),
                took,
                limit,
            });
        }
        match done {
            Ok(guard) => self.hold(guard, dice).await,
            Err(AcquireError::Busy { .. }) => {}
            // An outage: whoever asks again at once shows nothing.
            Err(_) => self.sleep(dice.below(400 * MILLI)).await,
        }
    }

    async fn reenter(&self, lock: &Lock, dice: &mut Dice) {
        let me = Actor::new();
        let Ok(outer) = lock.clone().by(&me).acquire().await else { return };
        if let Ok(inner) = lock.clone().by(&me).acquire().await {
            self.hold(inner, dice).await;
        }
        self.hold(outer, dice).await;
    }

    /// Works on what the guard protects, then lets go.
    async fn hold<G: Shown>(&self, guard: Guard<G>, dice: &mut Dice) {
        let resources = G::resources(&guard);
        let long = dice.per_mille(60) && !self.calm;
        for _ in 0..=dice.below(2) {
            self.sleep(if long { dice.below(2 * nanos(self.ttl)) } else { dice.below(15 * MILLI) }).await;
            if !guard.is_held() {
                break;
            }
            // Here a process may be paused: it was told that it holds, and acts on it later.
            for (lock, token) in &resources {
                let Some(read) = self.errand(lock, *token, None).await else { break };
                let thinks = if !self.calm && dice.per_mille(100) { nanos(self.ttl) / 2 } else { 3 * MILLI };
                self.sleep(dice.below(thinks)).await;
                if self.errand(lock, *token, Some(read)).await.is_none() {
                    break;
                }
            }
            if dice.per_mille(50) {
                let _ = guard.renew().await;
            }
        }
        if dice.per_mille(700) {
            let _ = guard.release().await;
        }
    }

    /// Shows a token to a resource, to read or to write. `None`: stale.
    pub(crate) async fn errand(&self, lock: &str, token: FencingToken, write_after: Option<u64>) -> Option<u64> {
        let result: Slot = Arc::new(Mutex::new(None));
        let errand = Errand { lock: lock.to_owned(), token, write_after, result: result.clone() };
        {
            let mut net = self.hub.net();
            let far = net.weather.latency;
            let mut way = far.0 + net.dice.below(far.1);
            if !self.calm && net.dice.per_mille(50) {
                way += net.dice.below(2 * nanos(self.ttl));
            }
            let at = net.now + way;
            net.post(at, Parcel::ToResource { from: self.pid, task: self.task, errand });
        }
        let result = poll_fn(|_| {
            let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
            result.map_or(Poll::Pending, Poll::Ready)
        });
        result.await.ok()
    }

    pub(crate) fn now(&self) -> Nanos {
        self.hub.net().now
    }

    fn stood_still(&self) -> Nanos {
        self.hub.net().stood_still[self.pid.0]
    }

    pub(crate) fn sleep(&self, span: Nanos) -> Sleep<'_> {
        Sleep { worker: self, span, until: None }
    }
}

pub(crate) struct Sleep<'a> {
    worker: &'a Worker,
    span: Nanos,
    until: Option<Nanos>,
}

impl Future for Sleep<'_> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<()> {
        let (span, worker) = (self.span, self.worker);
        let mut net = worker.hub.net();
        let now = net.now;
        let until = *self.until.get_or_insert_with(|| {
            let until = now.saturating_add(span);
            net.post(until, Parcel::Wake { to: worker.pid, task: worker.task });
            until
        });
        if until <= now { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// What a kind of guard has to show.
trait Shown: Grant + Sized {
    /// How people call it.
    const KIND: &'static str;

    /// The locks whose resources it may write to, and the tokens to show there.
    fn resources(guard: &Guard<Self>) -> Vec<(String, FencingToken)>;
}

impl Shown for FencingToken {
    const KIND: &'static str = "an exclusive lock";

    fn resources(guard: &Guard<Self>) -> Vec<(String, FencingToken)> {
        vec![(guard.name().to_owned(), guard.token())]
    }
}

impl Shown for SharedToken {
    const KIND: &'static str = "a shared lock";

    fn resources(_: &Guard<Self>) -> Vec<(String, FencingToken)> {
        Vec::new()
    }
}

impl Shown for Vec<Permit> {
    const KIND: &'static str = "a semaphore";

    fn resources(guard: &Guard<Self>) -> Vec<(String, FencingToken)> {
        let name = guard.name();
        guard.permits().iter().map(|permit| (format!("{name}/permit#{}", permit.slot), permit.token)).collect()
    }
}

impl Shown for BTreeMap<String, FencingToken> {
    const KIND: &'static str = "several locks";

    fn resources(guard: &Guard<Self>) -> Vec<(String, FencingToken)> {
        guard.tokens().iter().map(|(name, token)| (name.clone(), *token)).collect()
    }
}
