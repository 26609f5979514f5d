//! Accepts connections, and ends them in bounded time.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::Locks;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::app::{App, router};
use crate::settings::Settings;

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
    let (limits, drain_time) = (settings.limits.clone(), settings.drain);
    let app = App::new(locks.clone(), settings, draining.clone());
    let service = TowerToHyperService::new(router(app));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_time);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(limits.header_time));
    let builder = Arc::new(builder);
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        // Whoever has no room waits in the kernel's own line, which is bounded.
        let (stream, seat) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &room) => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let (builder, service, draining) = (builder.clone(), service.clone(), drained(draining.clone()));
        connections.spawn(async move {
            let _seat = seat;
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = draining => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    drain.send_replace(true);
    let ended = tokio::time::timeout(drain_time, async { while connections.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tracing::warn!(connections = connections.len(), "the drain took too long: connections are cut");
        connections.shutdown().await;
    }
    // Releases that are still on their way; leases that were granted are others' and stay.
    let left = locks.shutdown(drain_time).await;
    if !left.is_empty() {
        tracing::warn!(locks = left.len(), "releases that nobody confirmed: these locks are free after their ttl");
    }
    Ok(())
}

async fn drained(mut draining: watch::Receiver<bool>) {
    let _ = draining.wait_for(|draining| *draining).await;
}

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    let seat = room.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small, and each is waited for.
                let _ = stream.set_nodelay(true);
                return (stream, seat);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
