//! A connection that never blocks: TCP or a unix socket, with TLS on it or without.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use fencepost_core::store::{StoreErrorKind, Trouble};
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::tls::{self, Access, Session};
use crate::url::Address;

/// What bytes go through, as both sides mean them. Reading and writing may happen at the same time.
pub(crate) struct Socket {
    plain: Plain,
    tls: Option<Session>,
}

/// What bytes go through as they are.
#[derive(Debug)]
pub(crate) enum Plain {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Where to connect, after names were looked up.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(String),
}

/// Looks a name up. It may take its time: not for the driver's thread.
pub(crate) fn look_up(address: &Address) -> io::Result<Place> {
    match address {
        Address::Unix(path) => Ok(Place::Unix(path.clone())),
        Address::Tcp { host, port } => {
            let mut found = (host.as_str(), *port).to_socket_addrs()?;
            let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            found.next().map(Place::Tcp).ok_or_else(none)
        }
    }
}

/// An address that needs no looking up.
pub(crate) fn known(address: &Address) -> Option<Place> {
    match address {
        Address::Unix(path) => Some(Place::Unix(path.clone())),
        Address::Tcp { host, port } => {
            let ip = if host == "localhost" { "127.0.0.1".parse().ok() } else { host.parse().ok() };
            ip.map(|ip| Place::Tcp(SocketAddr::new(ip, *port)))
        }
    }
}

impl Socket {
    /// Starts to connect.
    pub(crate) fn connect(place: &Place, access: Option<&Access>) -> io::Result<Self> {
        let tls = access.map(Access::session).transpose()?;
        let plain = match place {
            Place::Unix(path) => Plain::Unix(UnixStream::connect(path)?),
            Place::Tcp(address) => {
                let stream = TcpStream::connect(*address)?;
                stream.set_nodelay(true)?;
                Plain::Tcp(stream)
            }
        };
        Ok(Self { plain, tls })
    }

    /// Connects, for somebody who has the time to wait: reading and writing block for `within` each, at most.
    pub(crate) fn blocking(place: &Place, access: Option<&Access>, within: Duration) -> io::Result<Self> {
        let tls = access.map(Access::session).transpose()?;
        let plain = match place {
            Place::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_read_timeout(Some(within))?;
                stream.set_write_timeout(Some(within))?;
                Plain::Unix(UnixStream::from_std(stream))
            }
            Place::Tcp(address) => {
                let stream = std::net::TcpStream::connect_timeout(address, within)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(within))?;
                stream.set_write_timeout(Some(within))?;
                Plain::Tcp(TcpStream::from_std(stream))
            }
        };
        Ok(Self { plain, tls })
    }

    /// Why connecting failed, once it is known to be over.
    pub(crate) fn connected(&self) -> io::Result<bool> {
        match &self.plain {
            Plain::Tcp(stream) => {
                if let Some(error) = stream.take_error()? {
                    return Err(error);
                }
                match stream.peer_addr() {
                    Ok(_) => Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
                    Err(error) => Err(error),
                }
            }
            Plain::Unix(stream) => stream.take_error()?.map_or(Ok(true), Err),
        }
    }

    /// What it means that the server broke off before it answered anything; `said` is all that came.
    pub(crate) fn broken_off(&self, error: &io::Error, said: &[u8]) -> Trouble {
        /// The first byte of a TLS alert.
        const ALERT: u8 = 21;
        match (&self.plain, &self.tls) {
            (Plain::Tcp(_), None) if said.first() == Some(&ALERT) => {
                Trouble::new(StoreErrorKind::Misconfigured, "it speaks TLS: such a port is rediss:// or redlock+tls://")
            }
            (Plain::Tcp(_), None) => {
                let message = format!("{error}, before it answered; a port with TLS is rediss:// or redlock+tls://");
                Trouble::new(StoreErrorKind::Unreachable, message)
            }
            _ => trouble(error),
        }
    }

    /// TLS is not agreed on yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(Session::is_handshaking)
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token, writing: bool) -> io::Result<()> {
        let interest = if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.source().register(registry, token, interest)
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) {
        let _ = self.source().deregister(registry);
    }

    fn source(&mut self) -> &mut dyn Source {
        match &mut self.plain {
            Plain::Tcp(stream) => stream,
            Plain::Unix(stream) => stream,
        }
    }

    /// Something has come that nobody has read yet.
    pub(crate) fn has_unread(&self) -> bool {
        match &self.plain {
            Plain::Tcp(stream) => stream.peek(&mut [0]).is_ok_and(|count| count > 0),
            Plain::Unix(_) => false,
        }
    }

    /// Reads what came. With TLS it also writes what TLS has left to say, so reading is due when there is room, too.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => { &self.plain }.read(buffer),
            Some(session) => session.read(&self.plain, buffer),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            None => { &self.plain }.write(bytes),
            Some(session) => session.write(&self.plain, bytes),
        }
    }
}

impl Read for &Plain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Plain::Tcp(stream) => { stream }.read(buffer),
            Plain::Unix(stream) => { stream }.read(buffer),
        }
    }
}

impl Write for &Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Plain::Tcp(stream) => { stream }.write(bytes),
            Plain::Unix(stream) => { stream }.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a failed read, write or connect means.
pub(crate) fn trouble(error: &io::Error) -> Trouble {
    tls::trouble(error).unwrap_or_else(|| Trouble::new(StoreErrorKind::Unreachable, error.to_string()))
}
