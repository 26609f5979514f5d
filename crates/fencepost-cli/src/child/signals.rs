//! Signals to us, as messages.

use std::sync::mpsc::Sender;

use nix::sys::signal::{SigSet, Signal};

use super::Message;

/// What asks us to end, and is passed on to the command.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Turns signals into messages from now on. To be called before any other thread exists: threads inherit what is
/// blocked, and one that blocks less would be killed in our stead.
pub(crate) fn listen(sender: Sender<Message>) -> std::io::Result<()> {
    let mut heard = SigSet::empty();
    // A blocked signal is delivered even if ignored; whoever started us under `nohup` wants it ignored.
    let ignored = ignored();
    ENDING.into_iter().filter(|signal| !ignored.contains(*signal)).for_each(|signal| heard.add(signal));
    heard.add(Signal::SIGCHLD);
    let mut blocked = heard;
    // Taking the terminal back from the background would stop us.
    blocked.add(Signal::SIGTTOU);
    blocked.thread_block()?;
    let listen = move || {
        while let Ok(signal) = heard.wait() {
            if sender.send(Message::Signal(signal)).is_err() {
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
