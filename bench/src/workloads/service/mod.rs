//! The lock service, as a process of its own, and clients that keep their connections.

pub(super) mod handover;
pub(super) mod load;
pub(super) mod requests;

use std::io::Read;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use fencepost::{Blocking, connect};
use fencepost_server::{Metrics, Settings};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::Outcome;
use crate::process::{self, Worker};

/// In the place of a store: a route that says hello, and nothing else.
const HELLO: &str = "hello";

/// A service in a process of its own, until it is dropped.
struct Service {
    worker: Worker,
    address: String,
}

impl Service {
    /// In front of this store, or the bare route.
    fn start(store: &str) -> Outcome<Self> {
        let mut worker = Worker::start(requests::WORKLOAD.name, &[store])?;
        let address = worker.hear()?;
        Ok(Self { worker, address })
    }

    fn address(&self) -> &str {
        &self.address
    }
}

/// What `fencepost serve` does, without its arguments and its logs.
fn work(args: &[String]) -> Outcome<()> {
    let store = args.first().ok_or("the worker needs a store")?;
    let metrics = Metrics::new();
    let locks = match store.as_str() {
        HELLO => None,
        store => Some(connect(store).observer(metrics.clone()).block()?),
    };
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        process::say(&listener.local_addr()?.to_string())?;
        let ended = async { drop(tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await) };
        match locks {
            Some(locks) => Settings::default().metrics(metrics).run(listener, locks, ended).await?,
            None => {
                let router = Router::new().route("/hello", get(async || HELLO).post(async || HELLO));
                axum::serve(listener, router).with_graceful_shutdown(ended).await?;
            }
        }
        Outcome::Ok(())
    })
}
