//! What stands in for TLS in a build without the feature `tls`: nobody gets in.

use std::io;

use fencepost_core::Invalid;
use fencepost_core::store::Trouble;

use crate::settings::TlsFiles;
use crate::socket::Plain;

/// How to reach a server by TLS: not in this build.
#[derive(Clone, Debug)]
pub(crate) enum Access {}

/// TLS on one connection: not in this build.
pub(crate) enum Session {}

/// What all servers of a connection have in common.
pub(crate) enum Client {}

impl Client {
    pub(crate) fn new(_: &TlsFiles) -> Result<Self, Invalid> {
        let cure = "this build has no TLS: turn on the feature `redis-tls` of fencepost (`tls` of fencepost-redis)";
        Err(Invalid::new("store", "TLS", cure))
    }

    pub(crate) fn access(&self, _: &str) -> Result<Access, Invalid> {
        match *self {}
    }
}

impl Access {
    pub(crate) fn session(&self) -> io::Result<Session> {
        match *self {}
    }
}

impl Session {
    pub(crate) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) fn read(&self, _: &Plain, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn write(&self, _: &Plain, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }
}

/// What TLS has to say about an error: nothing.
pub(crate) fn trouble(_: &io::Error) -> Option<Trouble> {
    None
}
