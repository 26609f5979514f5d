//! `fencepost serve`: the library behind a socket.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;

use fencepost::Locks;
use fencepost_server::{AuditLog, Limits, Manager, Metrics, Rate, Settings as Service, TlsFiles};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{LogForm, Serve};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::logs::{Lines, missing_as_json};
use crate::output::LAST_WORDS;
use crate::settings::Settings;

/// Where it listens: the first line, once it does.
#[derive(Serialize)]
struct Serving {
    address: SocketAddr,
}

pub(crate) fn serve(arguments: &Serve, settings: &Settings) -> Result<ExitCode, Failure> {
    if arguments.openapi {
        settings.output.print(&fencepost_server::openapi())?;
        return Ok(ExitCode::DONE);
    }
    // Everything that can be wrong is said before anything is opened.
    let service = configured(arguments).map_err(|why| Failure::new(ExitCode::CONFIGURATION, why))?;
    let logs =
        Lines::to(std::io::stderr(), missing_as_json).map_err(|error| Failure::ours("cannot start threads", error))?;
    write_logs(arguments.log, settings, logs.clone());
    if !arguments.listen.ip().is_loopback() && arguments.tls_cert.is_none() {
        settings.output.note("keys travel in the clear: add --tls-cert and --tls-key, or let a proxy speak TLS");
    }
    let metrics = Metrics::new();
    let locks = settings.open(settings.connect().observer(metrics.clone()))?;
    let service = match &arguments.audit_log {
        Some(file) => service.audit(opened(file)?),
        None => service,
    };
    let runtime = Runtime::new().map_err(|error| Failure::ours("cannot start threads", error))?;
    let served = runtime.block_on(listen(arguments, settings, service.metrics(metrics), locks));
    logs.flush_within(LAST_WORDS);
    served.map(|()| ExitCode::DONE)
}

fn configured(arguments: &Serve) -> Result<Service, String> {
    let mut limits = Limits::default();
    limits.connections = arguments.max_connections;
    limits.waiters_per_lock = arguments.max_waiters;
    limits.locks = arguments.max_locks;
    limits.rate = Rate { per_second: arguments.max_rate.into(), burst: 2.0 * f64::from(arguments.max_rate) };
    let mut service = Service::default().drain(arguments.drain).limits(limits);
    if let Some(file) = &arguments.auth_file {
        service = service.auth_file(file).map_err(|why| format!("--auth-file: {why}"))?;
    }
    if let (Some(cert), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        let files = TlsFiles { cert: cert.clone(), key: key.clone(), client_ca: arguments.client_ca.clone() };
        service = service.tls(&files).map_err(|why| format!("--tls-cert, --tls-key: {why}"))?;
    }
    if let Some(collector) = &arguments.otlp {
        service = traced(service, collector, arguments.trace_names).map_err(|why| format!("--otlp: {why}"))?;
    }
    service.checked(arguments.listen)?;
    Ok(service)
}

#[cfg(feature = "otel")]
fn traced(service: Service, collector: &str, names: bool) -> Result<Service, String> {
    Ok(service.traces(fencepost_server::Traces::to(collector)?.names(names)))
}

#[cfg(not(feature = "otel"))]
fn traced(_service: Service, _collector: &str, _names: bool) -> Result<Service, String> {
    Err("this program was built without traces; build it with `--features otel`".into())
}

fn opened(file: &Path) -> Result<AuditLog, Failure> {
    AuditLog::open(file).map_err(|why| Failure::new(ExitCode::CONFIGURATION, format!("--audit-log: {why}")))
}

async fn listen(arguments: &Serve, settings: &Settings, service: Service, locks: Locks) -> Result<(), Failure> {
    let address = arguments.listen;
    let refused = |error| Failure::ours(&format!("cannot listen on {address}"), error);
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let at = listener.local_addr().map_err(refused)?;
    let ended = signals().map_err(|error| Failure::ours("cannot listen for signals", error))?;
    let scheme = if arguments.tls_cert.is_some() { "https" } else { "http" };
    settings.output.answer(Serving { address: at }, || format!("{scheme}://{at}"))?;
    let manager = Manager::from_environment();
    manager.ready();
    let shutdown = async {
        tokio::select! {
            () = ended => {}
            () = heartbeats(&manager) => {}
        }
        manager.stopping();
    };
    service.run(listener, locks, shutdown).await.map_err(|error| Failure::ours("cannot serve", error))
}

/// Resolves when we are told to end.
fn signals() -> std::io::Result<impl Future<Output = ()>> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

/// Tells the service manager that we live, as often as it wants to hear it. Never resolves.
async fn heartbeats(manager: &Manager) {
    let Some(pause) = manager.heartbeat() else { return std::future::pending().await };
    loop {
        tokio::time::sleep(pause).await;
        manager.alive();
    }
}

/// Logs go to standard error, as much of them as was asked for.
fn write_logs(form: LogForm, settings: &Settings, lines: Lines) {
    let level = match (settings.output.quiet, settings.output.verbose) {
        (true, _) => tracing::Level::ERROR,
        (_, true) => tracing::Level::DEBUG,
        _ => tracing::Level::INFO,
    };
    let logs = tracing_subscriber::fmt().with_max_level(level).with_writer(move || lines.clone());
    let logs = logs.with_ansi(false);
    let installed = match form {
        LogForm::Text => tracing::subscriber::set_global_default(logs.finish()),
        LogForm::Json => tracing::subscriber::set_global_default(logs.json().flatten_event(true).finish()),
    };
    // Only a test that calls this twice could have one already.
    let _ = installed;
}
