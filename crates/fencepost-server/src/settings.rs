//! How a service is to run.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::Locks;
use tokio::net::TcpListener;

use crate::audit::AuditLog;
use crate::auth::{Credentials, Gate};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::serve;
use crate::tls::TlsFiles;
use crate::traces::Traces;
use crate::watched::Watched;

/// How a service is to run.
///
/// # Default
/// - `limits`: see [`Limits`]
/// - `drain`: 10 s
/// - credentials: none, for loopback only; see [`auth_file`](Self::auth_file)
/// - TLS: none; audit log: none
/// - `look_every`: files are looked at each second
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) limits: Limits,
    pub(crate) drain: Duration,
    pub(crate) gate: Gate,
    pub(crate) tls: Option<Tls>,
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) metrics: Metrics,
    pub(crate) look_every: Duration,
    pub(crate) traces: Traces,
}

/// TLS, and whether clients may prove by it who they are.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<Watched<rustls::ServerConfig>>,
    knows_clients: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            drain: Duration::from_secs(10),
            gate: Gate::Open,
            tls: None,
            audit: None,
            metrics: Metrics::new(),
            look_every: Duration::from_secs(1),
            traces: Traces::default(),
        }
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

    /// Asks everybody who they are, and lets them do what this file says ([docs](crate::auth::Credentials)). It is read
    /// again when it changes; a change that cannot be read is logged, and changes nothing. `Err` says why it cannot be
    /// read now.
    pub fn auth_file(mut self, file: impl Into<PathBuf>) -> Result<Self, String> {
        let parse = |files: &[Vec<u8>]| {
            let text = files.first().map(|file| std::str::from_utf8(file)).unwrap_or(Ok(""));
            Credentials::parse(text.map_err(|_| "it is no UTF-8".to_owned())?)
        };
        self.gate = Gate::Credentials(Arc::new(Watched::open("credentials", vec![file.into()], parse)?));
        Ok(self)
    }

    /// Speaks TLS. The files are read again when they change. `Err` says which of them cannot be used, and why.
    pub fn tls(mut self, files: &TlsFiles) -> Result<Self, String> {
        self.tls = Some(Tls { config: Arc::new(files.open()?), knows_clients: files.client_ca.is_some() });
        Ok(self)
    }

    /// Writes down who did what.
    #[must_use]
    pub fn audit(mut self, log: AuditLog) -> Self {
        self.audit = Some(Arc::new(log));
        self
    }

    /// Counts here. Make them an observer of the connection too, or what the library tells is not counted.
    #[must_use]
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Tells of each request there.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn traces(mut self, traces: Traces) -> Self {
        self.traces = traces;
        self
    }

    /// How often files are looked at for changes.
    #[must_use]
    pub fn look_every(mut self, pause: Duration) -> Self {
        self.look_every = pause;
        self
    }

    /// Whether clients are asked who they are.
    pub fn asks_who(&self) -> bool {
        matches!(self.gate, Gate::Credentials(_))
    }

    /// Whether these settings are safe on that address. `Err` names the cure.
    pub fn checked(&self, address: SocketAddr) -> Result<(), String> {
        if self.tls.as_ref().is_some_and(|tls| tls.knows_clients) && !self.asks_who() {
            return Err(
                "certificates of clients say who they are, and nothing says what they may: add an --auth-file \
                with [[certificate]] entries"
                    .into(),
            );
        }
        if !address.ip().is_loopback() && !self.asks_who() {
            return Err(format!(
                "{address} can be reached from other machines, and nobody would be asked who they are: make a key with \
                 `fencepost key` and give its entry with --auth-file, or listen on 127.0.0.1"
            ));
        }
        Ok(())
    }

    /// Serves until `shutdown` resolves, and then for as long as the drain takes; the connection is shut down with it.
    /// Leases that were granted stay.
    pub async fn run(
        self,
        listener: TcpListener,
        locks: Locks,
        shutdown: impl Future<Output = ()>,
    ) -> std::io::Result<()> {
        // Whoever calls the library has not asked before.
        self.checked(listener.local_addr()?).map_err(std::io::Error::other)?;
        serve::serve(listener, locks, self, shutdown).await
    }
}
