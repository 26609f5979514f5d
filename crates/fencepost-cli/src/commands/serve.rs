//! `fencepost serve`: the library behind a socket.

use std::net::SocketAddr;

use fencepost_server::Settings as Service;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Serve;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
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
    let address = arguments.listen;
    if !address.ip().is_loopback() {
        let message = format!("{address} can be reached from other machines, and nobody would be asked who they are");
        return Err(Failure::new(ExitCode::CONFIGURATION, format!("{message}: listen on 127.0.0.1")));
    }
    let locks = settings.open()?;
    let runtime = Runtime::new().map_err(|error| Failure::ours("cannot start threads", error))?;
    runtime.block_on(async {
        let refused = |error| Failure::ours(&format!("cannot listen on {address}"), error);
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let at = listener.local_addr().map_err(refused)?;
        let unheard = |error| Failure::ours("cannot listen for signals", error);
        let (mut term, mut int) =
            (signal(SignalKind::terminate()).map_err(unheard)?, signal(SignalKind::interrupt()).map_err(unheard)?);
        settings.output.answer(Serving { address: at }, || format!("http://{at}"))?;
        let shutdown = async {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        let service = Service::default().drain(arguments.drain);
        service.run(listener, locks, shutdown).await.map_err(|error| Failure::ours("cannot serve", error))
    })?;
    Ok(ExitCode::DONE)
}
