//! `fencepost init`: an operator says that these servers are a new cluster, on which nobody holds a lock.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use fencepost_core::store::{Clock, StoreError, StoreErrorKind, Trouble};

use crate::driver::Started;
use crate::keys::Layout;
use crate::link::Link;
use crate::scripts::HELD;
use crate::started;
use crate::steps::OWN_KEYS;
use crate::store::{keys_of_locks, page};
use crate::url::{Config, Trusting};
use crate::wire::Value;

/// Marks all nodes of a new cluster as trusted, so that they vote at once.
///
/// Only for a cluster on which no lease runs: a node that forgot a lock and is trusted all the same may grant it twice. So
/// all nodes are looked at first. A key that has the name of a lock and no ttl counts as a lock that is held for ever. With an empty
/// prefix every key of the database has the name of a lock, and only locks of Fencepost's own count: those of other libraries
/// cannot be told from other data then.
///
/// # Errors
/// If the URL is not one of Redis, a node does not answer, or a lock is held on any of them. Then no node is marked.
pub async fn init(scheme: &str, rest: &str) -> Result<(), StoreError> {
    let wrong = |message: String| StoreError::new(StoreErrorKind::Misconfigured, "init", message);
    let mut config = Config::parse(scheme, rest).map_err(|invalid| wrong(invalid.to_string()))?;
    let clock = Clock::system().map_err(|error| wrong(error.to_string()))?;
    config.trusting = Trusting::NotAsked;
    let seen = reach_all(&config, &clock).await?;
    for link in &seen.links {
        refuse_leases(link).await.map_err(|trouble| failed(link, &trouble))?;
    }
    config.trusting = Trusting::Everybody;
    reach_all(&config, &clock).await.map(drop)
}

fn failed(link: &Link, trouble: &Trouble) -> StoreError {
    StoreError::new(trouble.kind.clone(), "init", format!("{}: {}", link.label, trouble.message))
}

/// Connects to every server that the URL names or that is found by it.
async fn reach_all(config: &Config, clock: &Clock) -> Result<Started, StoreError> {
    let mut started = started(config, clock)?;
    let settled = &started.handle.settled;
    poll_fn(|context| settled.poll_all(context.waker()).map_or(Poll::Pending, Poll::Ready)).await;
    if let Some(fleet) = &started.fleet {
        started.links = fleet.links();
    }
    let down = started.links.iter().find_map(|link| {
        let state = link.state();
        state.up.is_none().then(|| failed(link, &state.trouble))
    });
    match down {
        Some(error) => Err(error),
        None => Ok(started),
    }
}

/// Refuses a server on which any lock is held.
async fn refuse_leases(link: &Arc<Link>) -> Result<(), Trouble> {
    let any_name = link.keys.prefix.is_empty();
    let counts = if any_name && link.keys.layout == Layout::Fencepost { "ours" } else { "all" };
    let (pattern, mut cursor) = (keys_of_locks(link, ""), "0".to_owned());
    loop {
        let scan = ask(link, &["SCAN", &cursor, "MATCH", &pattern, "COUNT", "1000"]);
        let (next, keys) = page(scan.await)?;
        let locks = keys.iter().filter(|key| !key.starts_with(OWN_KEYS));
        // All are sent before the first answer is waited for.
        let held = |key: &String| {
            let (readers, fence) = (format!("fp:readers:{{{key}}}"), format!("fp:fence:{{{key}}}"));
            ask(link, &["EVAL", HELD, "3", key, &readers, &fence, counts])
        };
        let asked: Vec<_> = locks.map(|key| (key, held(key))).collect();
        for (key, answer) in asked {
            let left = match answer.await? {
                Value::Error(text) => return Err(crate::error::trouble(&text)),
                value => value.number().unwrap_or_default(),
            };
            // Redisson's layout has no prefix by default: there a key without a ttl is somebody's data.
            if left < 0 && !(any_name && link.keys.layout == Layout::Redisson) {
                let message = format!(
                    "the key {key:?} has no ttl and the name of a lock, so it counts as one that is held for ever; init is for a new \
                     cluster, on which no lock is held: delete the key if it is no lock, or choose another ?prefix="
                );
                return Err(Trouble::new(StoreErrorKind::Misconfigured, message));
            }
            if let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) {
                let name = link.keys.name_of_lock(key).unwrap_or_else(|| key.clone());
                let left = Duration::from_millis(left.div_ceil(1000) * 1000);
                let message = format!(
                    "the lease of {name:?} runs for {left:?} more; init is for a new cluster, on which no lock is held: a node \
                     that forgot this one would grant it again"
                );
                return Err(Trouble::new(StoreErrorKind::Misconfigured, message));
            }
        }
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// Sends a command at once; its reply is awaited.
fn ask(link: &Arc<Link>, words: &[&str]) -> impl Future<Output = Result<Value, Trouble>> + use<> {
    let slot = Arc::new(Mutex::new(Slot::default()));
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let filled = slot.clone();
    link.command(&words, move |_, reply| {
        let mut slot = filled.lock().unwrap_or_else(PoisonError::into_inner);
        slot.reply = Some(reply);
        let waker = slot.waker.take();
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    });
    poll_fn(move |context| {
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
}

/// Where a reply arrives.
#[derive(Default)]
struct Slot {
    reply: Option<Result<Value, Trouble>>,
    waker: Option<Waker>,
}
