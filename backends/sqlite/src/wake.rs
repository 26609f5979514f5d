//! How one process tells another that a lock may be theirs: datagrams between sockets in a folder beside the file.
//!
//! A datagram carries the name of a lock and nothing that is believed: whoever gets it reads the file. So a lost, late
//! or forged one does no harm. A socket that refuses tells that its process is gone, and its claims are passed over.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use fencepost_core::store::{LockName, Owner};

use crate::path;
use crate::queue::Queue;

/// How many sockets of others are looked at, to remove what dead processes left behind.
const SWEEP_MAX: usize = 64;
/// The longest name of a lock.
const HINT_BYTES_MAX: usize = 255;

/// How to reach one in line.
#[derive(Debug)]
pub(crate) enum Route {
    /// It listens on this very store.
    Here,
    /// Its process has this socket.
    There(UnixDatagram),
    /// It looks by itself.
    Polls,
}

/// Tells another process to look at a lock. One that does not keep up with its hints misses some: its waiters still ask
/// again by themselves, every third of their place's lease.
pub(crate) fn hint(socket: &UnixDatagram, name: &LockName) {
    let _ = socket.send(name.as_str().as_bytes());
}

/// This store's own socket, and the way to those of others.
pub(crate) struct Wake {
    file: PathBuf,
    folder: PathBuf,
    queue: Arc<Queue>,
    own: Own,
}

enum Own {
    /// Nobody has waited yet.
    Unbound,
    Bound {
        inbox: String,
        socket: UnixDatagram,
    },
    /// No socket can be had here: the path is too long, or the folder cannot be made.
    Polling,
}

impl Wake {
    pub(crate) fn new(file: &Path, queue: Arc<Queue>) -> Self {
        Self { file: file.to_owned(), folder: path::beside(file, "-wake"), queue, own: Own::Unbound }
    }

    /// Makes sure that others can reach us, if that is possible at all.
    pub(crate) fn bind(&mut self) {
        if matches!(self.own, Own::Unbound) {
            self.own = self.bound().unwrap_or(Own::Polling);
        }
    }

    /// Nobody can reach us: whoever waits has to look from time to time.
    pub(crate) fn polls(&self) -> bool {
        matches!(self.own, Own::Polling)
    }

    /// The name of our own socket.
    pub(crate) fn inbox(&self) -> Option<&str> {
        match &self.own {
            Own::Bound { inbox, .. } => Some(inbox),
            Own::Unbound | Own::Polling => None,
        }
    }

    /// The way to one in line; `None`: nobody listens there any more.
    pub(crate) fn route(&mut self, owner: &Owner, inbox: Option<&str>) -> Option<Route> {
        if self.queue.listens(owner) {
            return Some(Route::Here);
        }
        let Some(inbox) = inbox.filter(|inbox| is_inbox(inbox)) else { return Some(Route::Polls) };
        if self.inbox() == Some(inbox) {
            return None;
        }
        match reach(&self.folder.join(inbox)) {
            Ok(socket) => Some(Route::There(socket)),
            Err(error) if is_dead(&error) => None,
            Err(_) => Some(Route::Polls),
        }
    }

    fn bound(&self) -> io::Result<Own> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Ok(()) => path::share_like(&self.file, &self.folder)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.sweep(),
            Err(error) => return Err(error),
        }
        let mut inbox = Owner::random().map_err(|error| io::Error::other(error.to_string()))?.expose();
        inbox.truncate(INBOX_DIGITS);
        let at = self.folder.join(&inbox);
        let socket = UnixDatagram::bind(&at)?;
        self.queue.keep_socket(at.clone());
        path::share_like(&self.file, &at)?;
        let (receiver, queue) = (socket.try_clone()?, self.queue.clone());
        thread::Builder::new().name("fencepost-wake".into()).spawn(move || receive(&receiver, &queue))?;
        Ok(Own::Bound { inbox, socket })
    }

    /// Removes sockets of processes that ended without doing so.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten().take(SWEEP_MAX) {
            if entry.file_name().to_str().is_some_and(is_inbox) {
                let _ = reach(&entry.path());
            }
        }
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if let Own::Bound { socket, .. } = &self.own {
            // Ends the thread that waits on it.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

const INBOX_DIGITS: usize = 16;

/// What a row says is used as a file name only if it can be one of ours.
fn is_inbox(text: &str) -> bool {
    text.len() == INBOX_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Connects to a socket. That of a dead process is removed.
fn reach(at: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match socket.connect(at) {
        Ok(()) => Ok(socket),
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                let _ = fs::remove_file(at);
            }
            Err(error)
        }
    }
}

fn is_dead(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

fn receive(socket: &UnixDatagram, queue: &Queue) {
    let mut buffer = [0; HINT_BYTES_MAX];
    while !queue.is_closed() {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                let name = std::str::from_utf8(&buffer[..length]).ok().and_then(|text| LockName::new(text).ok());
                name.into_iter().for_each(|name| queue.hint(name));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
