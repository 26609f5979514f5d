//! How a service is to run.

use std::time::Duration;

use fencepost_core::Locks;
use tokio::net::TcpListener;

use crate::limits::Limits;
use crate::serve;

/// How a service is to run.
///
/// # Default
/// - `limits`: see [`Limits`]
/// - `drain`: 10 s
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) limits: Limits,
    pub(crate) drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { limits: Limits::default(), drain: Duration::from_secs(10) }
    }
}

impl Settings {
    /// What clients may ask for.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long connections have to end once the service is told to.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Serves until `shutdown` resolves, and then for as long as the drain takes; the connection is shut down with it.
    /// Leases that were granted stay.
    pub async fn run(
        self,
        listener: TcpListener,
        locks: Locks,
        shutdown: impl Future<Output = ()>,
    ) -> std::io::Result<()> {
        serve::serve(listener, locks, self, shutdown).await
    }
}
