//! Tells the service manager how we are: systemd's `Type=notify`.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// The socket of the manager that started us; none without one.
#[derive(Debug)]
pub struct Manager {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Manager {
    /// Whoever the environment names.
    pub fn from_environment() -> Self {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|path| match connect(&path) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET cannot be reached");
                None
            }
        });
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|_| for_us).map(Duration::from_micros);
        Self { socket, watchdog }
    }

    /// How often it wants to hear that we live: twice within its limit.
    pub fn heartbeat(&self) -> Option<Duration> {
        self.watchdog.filter(|limit| !limit.is_zero()).map(|limit| limit / 2)
    }

    /// We take requests.
    pub fn ready(&self) {
        self.say("READY=1\nSTATUS=serving");
    }

    /// We live.
    pub fn alive(&self) {
        self.say("WATCHDOG=1");
    }

    /// We are about to end.
    pub fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=draining");
    }

    fn say(&self, text: &str) {
        // A manager that does not listen must not stop us.
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(text.as_bytes())) {
            tracing::warn!(%error, "the service manager does not listen");
        }
    }
}

fn connect(path: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match path.as_encoded_bytes().split_first() {
        #[cfg(target_os = "linux")]
        Some((b'@', name)) => {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            socket.connect_addr(&address)?;
        }
        _ => socket.connect(path)?,
    }
    Ok(socket)
}
