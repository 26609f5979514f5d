//! TLS: whom we trust. Nothing is installed for the whole process: the cryptography is `ring`, and we say so ourselves.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fencepost_core::Invalid;
use fencepost_sql::Settings;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Where systems keep the certificates that they trust: Debian and most others, Fedora, openSUSE, BSD and macOS.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Makes connections speak TLS; without a configuration, they do not.
#[derive(Clone)]
pub(crate) struct Connector(Option<Arc<ClientConfig>>);

/// Reads the files.
pub(crate) fn connector(settings: &Settings) -> Result<Connector, Invalid> {
    if !settings.tls {
        return Ok(Connector(None));
    }
    let named = settings.ca_file.clone().or_else(|| std::env::var("SSL_CERT_FILE").ok());
    let found = SYSTEM_ROOTS.iter().find(|path| Path::new(path).is_file()).map(|path| (*path).to_owned());
    let cure = "this system has no file of trusted certificates where we look: name one in ca_file";
    let path = named.or(found).ok_or_else(|| Invalid::new("ca_file", "", cure))?;
    let refuse = |error: &dyn std::fmt::Display| {
        Invalid::new("ca_file", &path, format!("name a PEM file with certificates: {error}"))
    };
    let certificates = CertificateDer::pem_file_iter(&path).map_err(|error| refuse(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        // A system may trust what this library cannot read; the rest still counts.
        let _ = roots.add(certificate.map_err(|error| refuse(&error))?);
    }
    if roots.is_empty() {
        return Err(refuse(&"there is none in it"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("BUG: ring has the suites of both versions");
    Ok(Connector(Some(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))))
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Connector {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake { config: self.0.clone(), name })
    }
}

pub(crate) struct Handshake {
    config: Option<Arc<ClientConfig>>,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let config = self.config.ok_or_else(|| io::Error::other("TLS was not asked for"))?;
            TlsConnector::from(config).connect(self.name, stream).await.map(Encrypted)
        })
    }
}

/// A stream that only we and the server can read.
pub(crate) struct Encrypted<S>(TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
