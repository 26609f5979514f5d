//! Signals to us, as messages.

use std::sync::mpsc::Sender;

use nix::sys::signal::{SigSet, Signal};

/// What asks us to end, and is passed on to the command.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Turns signals into messages from now on. To be called before any other thread exists: threads inherit what is
/// blocked, and one that blocks less would be killed in our stead.
pub(crate) fn listen<M: From<Signal> + Send + 'static>(sender: Sender<M>) -> std::io::Result<()> {
    // Taking the terminal back from the background would stop us.
    SigSet::from(Signal::SIGTTOU).thread_block()?;
    hear(&[Signal::SIGCHLD], move |signal| sender.send(signal.into()).is_ok())
}

/// Tells of every signal that asks us to end, and of these too, until nobody listens. To be called before any other thread
/// exists.
pub(crate) fn hear(others: &[Signal], mut tell: impl FnMut(Signal) -> bool + Send + 'static) -> std::io::Result<()> {
    // A blocked signal is delivered even if ignored; whoever started us under `nohup` wants it ignored.
    let ignored = ignored();
    let ending = ENDING.into_iter().filter(|signal| !ignored.contains(*signal));
    let heard: SigSet = ending.chain(others.iter().copied()).collect();
    heard.thread_block()?;
    let listen = move || {
        while let Ok(signal) = heard.wait() {
            if !tell(signal) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen)?;
    Ok(())
}

/// What our parent had us ignore, where the system tells.
fn ignored() -> SigSet {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ENDING.into_iter().filter(|&signal| mask >> (signal as i32 - 1) & 1 == 1).collect()
}
