//! A connection that never blocks: TCP or a unix socket.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::url::Address;

#[derive(Debug)]
pub(crate) enum Socket {
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
    pub(crate) fn connect(place: &Place) -> io::Result<Self> {
        match place {
            Place::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Place::Tcp(address) => {
                let stream = TcpStream::connect(*address)?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    /// Why connecting failed, once it is known to be over.
    pub(crate) fn connected(&self) -> io::Result<bool> {
        match self {
            Self::Tcp(stream) => {
                if let Some(error) = stream.take_error()? {
                    return Err(error);
                }
                match stream.peer_addr() {
                    Ok(_) => Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
                    Err(error) => Err(error),
                }
            }
            Self::Unix(stream) => stream.take_error()?.map_or(Ok(true), Err),
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token, writing: bool) -> io::Result<()> {
        let interest = if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.source().register(registry, token, interest)
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) {
        let _ = self.source().deregister(registry);
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => { stream }.read(buffer),
            Self::Unix(stream) => { stream }.read(buffer),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => { stream }.write(bytes),
            Self::Unix(stream) => { stream }.write(bytes),
        }
    }
}
