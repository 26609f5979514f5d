//! Ctrl-C ends a run in order, so that no server and no folder stays behind. A second one ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, process, thread};

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::Outcome;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT and SIGTERM are only noted.
pub(crate) fn watch() -> Outcome<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
                if INTERRUPTED.swap(true, Ordering::SeqCst) {
                    process::exit(130);
                }
            }
        })
    });
    Ok(())
}

/// Between two steps: whether to go on.
pub(crate) fn check() -> Outcome<()> {
    if INTERRUPTED.load(Ordering::SeqCst) { Err(io::Error::from(io::ErrorKind::Interrupted).into()) } else { Ok(()) }
}
