//! Accepts connections, and ends them in bounded time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use fencepost_core::Locks;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::app::{App, router};
use crate::at_once::at_once;
use crate::auth::Gate;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::settings::{Settings, Tls};
use crate::tls;

/// After an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves locks until `shutdown` resolves, with default [`Settings`].
pub async fn run(listener: TcpListener, locks: Locks, shutdown: impl Future<Output = ()>) -> std::io::Result<()> {
    Settings::default().run(listener, locks, shutdown).await
}

pub(crate) async fn serve(
    listener: TcpListener,
    locks: Locks,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let (drain, draining) = watch::channel(false);
    let (limits, drain_time, metrics) = (settings.limits.clone(), settings.drain, settings.metrics.clone());
    let traces = settings.traces.clone();
    let mut files = JoinSet::new();
    follow(&settings, &mut files);
    let door = Arc::new(Door {
        tls: settings.tls.clone(),
        http: builder(&limits),
        hello_time: limits.header_time,
        draining: draining.clone(),
        router: router(App::new(locks.clone(), settings, draining)),
    });
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        // Whoever has no room waits in the kernel's own line, which is bounded.
        let (stream, address, seat) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &room) => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let (door, up) = (door.clone(), metrics.connected());
        connections.spawn(at_once(async move {
            door.connection(stream, address).await;
            drop((seat, up));
        }));
    }
    metrics.ready(false);
    drop(listener);
    drain.send_replace(true);
    // One time for all of it; a part of it is for what comes after the connections.
    let end = tokio::time::Instant::now() + drain_time;
    let left = || end.saturating_duration_since(tokio::time::Instant::now());
    let ended =
        tokio::time::timeout(drain_time * 3 / 4, async { while connections.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tracing::warn!(connections = connections.len(), "the drain took too long: connections are cut");
        connections.shutdown().await;
    }
    // Releases that are still on their way; leases that were granted are others' and stay.
    let unconfirmed = locks.shutdown(left()).await;
    if !unconfirmed.is_empty() {
        tracing::warn!(
            locks = unconfirmed.len(),
            "releases that nobody confirmed: these locks are free after their ttl"
        );
    }
    traces.end(left()).await;
    Ok(())
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The names in the certificate that it proved to have.
    pub(crate) names: Arc<[String]>,
}

/// What all connections share.
struct Door {
    router: Router,
    http: Builder<TokioExecutor>,
    tls: Option<Tls>,
    /// Until TLS is agreed on, and until the first request.
    hello_time: Duration,
    draining: watch::Receiver<bool>,
}

impl Door {
    async fn connection(&self, stream: TcpStream, address: SocketAddr) {
        let Some(tls) = &self.tls else { return self.http(stream, Peer { names: Arc::default() }).await };
        let hello = TlsAcceptor::from(tls.config.current()).accept(stream);
        match tokio::time::timeout(self.hello_time, hello).await {
            Ok(Ok(stream)) => {
                let names = tls::names(stream.get_ref().1.peer_certificates()).into();
                self.http(stream, Peer { names }).await;
            }
            Ok(Err(error)) => tracing::debug!(%address, %error, "no TLS"),
            Err(_) => tracing::debug!(%address, "TLS took too long"),
        }
    }

    async fn http(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let service = TowerToHyperService::new(self.router.clone());
        let has_asked = Arc::new(AtomicBool::new(false));
        let asks = has_asked.clone();
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            asks.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(peer.clone());
            service.call(request)
        });
        let mut draining = self.draining.clone();
        let told_to_end = async move { drop(draining.wait_for(|draining| *draining).await) };
        // The time for headers begins to run when the version of HTTP is known: whoever sends nothing has none.
        let says_nothing = async {
            tokio::time::sleep(self.hello_time).await;
            if has_asked.load(Ordering::Relaxed) {
                std::future::pending().await
            }
        };
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = says_nothing => return tracing::debug!("a connection without a request"),
            () = told_to_end => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.head)
        .max_headers(limits.headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(limits.header_time))
        .keep_alive_timeout(limits.header_time)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.head).unwrap_or(u32::MAX));
    builder
}

/// Looks after files that may change, as long as the service runs.
fn follow(settings: &Settings, tasks: &mut JoinSet<()>) {
    let (every, metrics) = (settings.look_every, &settings.metrics);
    let told = |what: &'static str, metrics: Metrics| move |good| metrics.reloaded(what, good);
    if let Gate::Credentials(file) = &settings.gate {
        tasks.spawn(file.clone().follow(every, told("credentials", metrics.clone())));
    }
    if let Some(audit) = &settings.audit {
        tasks.spawn(audit.clone().follow(every, told("audit_log", metrics.clone())));
    }
    if let Some(tls) = &settings.tls {
        tasks.spawn(tls.config.clone().follow(every, told("certificates", metrics.clone())));
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    let seat = room.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // Answers are small, and each is waited for.
                let _ = stream.set_nodelay(true);
                return (stream, address, seat);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
