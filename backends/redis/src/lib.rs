#![doc = include_str!("../README.md")]

mod call;
mod channels;
mod cluster;
mod doctor;
mod driver;
mod error;
mod fleet;
mod greeting;
mod held_back;
mod init;
mod keys;
mod link;
mod listeners;
mod pace;
mod probe;
mod reconfigure;
mod redisson;
mod replicas;
mod scripts;
mod sentinel;
mod sets;
mod settings;
mod settled;
mod socket;
mod standing;
mod steps;
mod store;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
mod tls;
#[cfg(feature = "tls")]
mod unverified;
mod url;
mod wire;

pub use doctor::examine;
pub use init::init;
pub use reconfigure::{MemberState, Orders, Progress, Reconfiguration, reconfigure};
pub use store::RedisNode;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use driver::Started;
use fencepost_core::store::{Clock, Members, Opening, Store, StoreError, StoreErrorKind, Trouble, connect_again};
use fencepost_core::{Connect, Invalid};
use fleet::FleetNode;
use url::{Config, Deployment};

/// The schemes of URLs that lead here. Those with TLS need the feature `tls`; without it, [`connect`] says so.
pub const SCHEMES: [&str; 9] = [
    "redis",
    "rediss",
    "redis+unix",
    "redlock",
    "redlock+tls",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
];

/// Connects to `SCHEME:REST`, where the scheme is one of [`SCHEMES`].
pub fn connect(scheme: &str, rest: &str) -> Connect {
    let config = match Config::parse(scheme, rest) {
        Ok(config) => config,
        Err(invalid) => return Connect::invalid(invalid),
    };
    let answer_within = config.answer_within;
    let connect = connect_again(move |Opening { clock, .. }| {
        let config = config.clone();
        Box::pin(async move {
            let sets = config.sets.clone();
            Ok(Members::in_sets(open_any(config, clock).await?, sets))
        })
    });
    match answer_within {
        Some(within) => connect.answer_within(within),
        None => connect,
    }
}

/// The servers of a URL as single stores, without an engine above them: for tests of what a step does.
///
/// # Errors
/// If the URL is not one of Redis, or no server can be reached.
pub async fn nodes(scheme: &str, rest: &str, clock: Clock) -> Result<Vec<Arc<dyn Store>>, StoreError> {
    let wrong = |invalid: Invalid| StoreError::new(StoreErrorKind::Misconfigured, "connect", invalid.to_string());
    open_any(Config::parse(scheme, rest).map_err(wrong)?, clock).await
}

async fn open_any(config: Config, clock: Clock) -> Result<Vec<Arc<dyn Store>>, StoreError> {
    match config.deployment {
        Deployment::Servers => {
            let nodes = open(config, clock).await?;
            Ok(nodes.into_iter().map(|node| Arc::new(node) as Arc<dyn Store>).collect())
        }
        Deployment::Sentinels { .. } | Deployment::Cluster => {
            Ok(vec![Arc::new(open_fleet(config, clock).await?) as Arc<dyn Store>])
        }
    }
}

async fn open(config: Config, clock: Clock) -> Result<Vec<RedisNode>, StoreError> {
    let Started { links, handle, .. } = started(&config, &clock)?;
    let handle = Arc::new(handle);
    let largest_ttl = config.quorum.then_some(config.max_ttl);
    let sets = sets::or_one(config.nodes.len(), &config.sets);
    let nodes: Vec<RedisNode> =
        links.into_iter().map(|link| RedisNode::new(link, largest_ttl, handle.clone())).collect();
    let up = poll_fn(|context| handle.settled.poll(context.waker()).map_or(Poll::Pending, Poll::Ready)).await;
    if up == 0 {
        let (label, trouble) = deciding(&sets, &nodes);
        return Err(StoreError::new(trouble.kind, "connect", format!("{label}: {}", trouble.message)));
    }
    Ok(nodes)
}

/// Whose trouble is the connection's, of servers of which none is up: one that waiting cures, as long as such servers are
/// majorities.
fn deciding(sets: &[Vec<usize>], nodes: &[RedisNode]) -> (String, Trouble) {
    let troubles: Vec<Trouble> = nodes.iter().map(|node| node.trouble().unwrap_or_else(link::not_connected)).collect();
    let passes = |node: usize| matches!(troubles[node].kind, StoreErrorKind::Unreachable | StoreErrorKind::TooSlow);
    let may_recover = sets::have_majorities(sets, passes);
    let decides = (0..nodes.len()).find(|node| passes(*node) == may_recover).unwrap_or(0);
    (nodes[decides].label(), troubles[decides].clone())
}

async fn open_fleet(config: Config, clock: Clock) -> Result<FleetNode, StoreError> {
    let Started { fleet, handle, .. } = started(&config, &clock)?;
    let fleet = fleet.expect("BUG: servers that are found are a fleet");
    let up = poll_fn(|context| handle.settled.poll(context.waker()).map_or(Poll::Pending, Poll::Ready)).await;
    if up == 0 {
        let trouble = fleet.trouble();
        return Err(StoreError::new(trouble.kind, "connect", format!("{}: {}", fleet.label, trouble.message)));
    }
    Ok(FleetNode::new(fleet, config.waits_after_failover.then_some(config.max_ttl), handle))
}

fn started(config: &Config, clock: &Clock) -> Result<Started, StoreError> {
    if let Some(address) = config.exposes_password() {
        fencepost_core::notice!(
            WARN,
            node = address,
            "the password goes over the network in clear text: use TLS, rediss://"
        );
    }
    driver::start(config, clock).map_err(|error| {
        StoreError::new(StoreErrorKind::Unexpected, "connect", format!("cannot start the driver: {error}"))
    })
}
