//! What a build without TLS says when it is asked for it.

use std::io;

use fencepost_core::Invalid;
use tokio::net::TcpStream;

use crate::connector::Wire;
use crate::url::Settings;

/// Nothing: this build has no TLS.
#[derive(Clone)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, Invalid> {
        let cure = "this build has no TLS: build with the feature `service-tls`";
        if settings.tls { Err(Invalid::new("store", "fencepost+https", cure)) } else { Ok(None) }
    }

    #[allow(clippy::unused_async, reason = "the same as with TLS")]
    pub(crate) async fn dress(self, _: TcpStream, _: &str) -> io::Result<Box<dyn Wire>> {
        match self {}
    }
}
