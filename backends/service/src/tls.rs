//! TLS: whom we trust, and what we show.

use std::io;
use std::path::Path;
use std::sync::Arc;

use fencepost_core::Invalid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connector::Wire;
use crate::url::Settings;

/// Where systems keep the certificates that they trust: Debian and most others, Fedora, openSUSE, BSD and macOS.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What all connections have in common.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl Tls {
    /// Reads the files, if the URL says that there is TLS.
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, Invalid> {
        if !settings.tls {
            return Ok(None);
        }
        let named = settings.ca_file.clone().or_else(|| std::env::var("SSL_CERT_FILE").ok());
        let found = SYSTEM_ROOTS.iter().find(|path| Path::new(path).is_file()).map(|path| (*path).to_owned());
        let cure = "this system has no file of trusted certificates where we look: name one in ca_file";
        let path = named.or(found).ok_or_else(|| Invalid::new("ca_file", "", cure))?;
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates("ca_file", &path)?);
        if added == 0 {
            return Err(Invalid::new("ca_file", path, "name a PEM file with a certificate of an authority"));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("BUG: ring has the suites of both versions")
            .with_root_certificates(roots);
        let config = match (&settings.cert_file, &settings.key_file) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let refuse =
                    |error: String| Invalid::new("key_file", key, format!("name the key of cert_file: {error}"));
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| refuse(error.to_string()))?;
                let shown = certificates("cert_file", certificate)?;
                builder.with_client_auth_cert(shown, secret).map_err(|error| refuse(error.to_string()))?
            }
            (Some(path), None) => return Err(Invalid::new("cert_file", path, "a certificate needs its key: key_file")),
            (None, Some(path)) => return Err(Invalid::new("key_file", path, "a key needs its certificate: cert_file")),
        };
        Ok(Some(Self(TlsConnector::from(Arc::new(config)))))
    }

    pub(crate) async fn dress(self, stream: TcpStream, host: &str) -> io::Result<Box<dyn Wire>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(self.0.connect(name, stream).await?))
    }
}

fn certificates(field: &'static str, path: &str) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    let refuse = |error| Invalid::new(field, path, format!("name a PEM file with certificates: {error}"));
    CertificateDer::pem_file_iter(path).map_err(refuse)?.collect::<Result<_, _>>().map_err(refuse)
}
