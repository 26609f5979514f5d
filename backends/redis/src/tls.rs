//! TLS: whom we trust, who we are, and one session per connection.
//!
//! A session is behind a lock of its own, so whoever submits a step may write while the driver reads. Nothing is
//! installed for the whole process: the cryptography is `ring`, and every configuration says so itself.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::Invalid;
use fencepost_core::store::{StoreErrorKind, Trouble};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, Error, RootCertStore};

use crate::settings::TlsFiles;
use crate::socket::Plain;
use crate::unverified::Unverified;

/// Where systems keep the certificates that they trust: Debian and most others, Fedora, openSUSE, BSD and macOS.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What all servers of a connection have in common.
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

/// How to reach one server.
#[derive(Clone)]
pub(crate) struct Access {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({})", self.name.to_str())
    }
}

impl Client {
    /// Reads the files.
    pub(crate) fn new(files: &TlsFiles) -> Result<Self, Invalid> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("BUG: ring has the suites of both versions");
        let builder = if files.insecure {
            fencepost_core::notice!(
                WARN,
                "insecure=true: any server is accepted as the Redis server; use it for tests only"
            );
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified::new(&provider)))
        } else {
            builder.with_webpki_verifier(verifier(files, &provider)?)
        };
        let config = match identity(files)? {
            None => builder.with_no_client_auth(),
            Some((certificates, key)) => builder.with_client_auth_cert(certificates, key).map_err(|error| {
                let path = files.key_file.as_deref().unwrap_or_default();
                Invalid::new("key_file", path, format!("it does not go with the certificate of cert_file: {error}"))
            })?,
        };
        Ok(Self { config: Arc::new(config), server_name: files.server_name.clone() })
    }

    /// For the server at this host.
    pub(crate) fn access(&self, host: &str) -> Result<Access, Invalid> {
        let name = self.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Invalid::new("server_name", name, "a DNS name or an IP address, as in the certificate"))?;
        Ok(Access { config: self.config.clone(), name })
    }
}

/// Trusts what `ca_file` has, or else what the system trusts.
fn verifier(files: &TlsFiles, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Invalid> {
    let mut roots = RootCertStore::empty();
    match &files.ca_file {
        Some(path) => {
            for certificate in certificates("ca_file", path)? {
                let refuse = |error| Invalid::new("ca_file", path, format!("a certificate of it is no good: {error}"));
                roots.add(certificate).map_err(refuse)?;
            }
        }
        None => {
            let named = std::env::var("SSL_CERT_FILE").ok().filter(|path| !path.is_empty());
            let found = SYSTEM_ROOTS.iter().find(|path| Path::new(path).is_file()).map(|path| (*path).to_owned());
            let cure = "this system has no file of trusted certificates where we look: name one in ca_file";
            let path = named.or(found).ok_or_else(|| Invalid::new("ca_file", "", cure))?;
            // A system may trust what this library cannot read; the rest still counts.
            roots.add_parsable_certificates(certificates("ca_file", &path)?);
        }
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().map_err(|error| {
        let path = files.ca_file.as_deref().unwrap_or_default();
        Invalid::new("ca_file", path, format!("it cannot be used: {error}"))
    })
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Who we are, if the server shall know.
fn identity(files: &TlsFiles) -> Result<Option<Identity>, Invalid> {
    let (certificate, key) = match (&files.cert_file, &files.key_file) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(path), None) => return Err(Invalid::new("cert_file", path, "a certificate needs its key: set key_file")),
        (None, Some(path)) => return Err(Invalid::new("key_file", path, "a key needs its certificate: set cert_file")),
    };
    let cure =
        |error| Invalid::new("key_file", key, format!("name a PEM file with a private key, not encrypted: {error}"));
    let secret = PrivateKeyDer::from_pem_file(key).map_err(cure)?;
    Ok(Some((certificates("cert_file", certificate)?, secret)))
}

fn certificates(field: &'static str, path: &str) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    let refuse = |why: String| Invalid::new(field, path, format!("name a PEM file with certificates: {why}"));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found = found.map_err(|error| refuse(error.to_string()))?;
    if found.is_empty() {
        return Err(refuse("there is none in it".into()));
    }
    Ok(found)
}

impl Access {
    pub(crate) fn session(&self) -> io::Result<Session> {
        let connection =
            ClientConnection::new(self.config.clone(), self.name.clone()).map_err(|error| refused(&error))?;
        Ok(Session { connection: Mutex::new(connection) })
    }
}

/// TLS on one connection.
pub(crate) struct Session {
    connection: Mutex<ClientConnection>,
}

impl Session {
    fn connection(&self) -> MutexGuard<'_, ClientConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection().is_handshaking()
    }

    /// Reads what the server said. Writes what is left before it waits for more, or answers "nothing now".
    pub(crate) fn read(&self, plain: &Plain, buffer: &mut [u8]) -> io::Result<usize> {
        let mut connection = self.connection();
        loop {
            match connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            send(&mut connection, plain)?;
            if !receive(&mut connection, plain)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Takes as much as fits. What the socket has no room for leaves with the next read or write.
    pub(crate) fn write(&self, plain: &Plain, bytes: &[u8]) -> io::Result<usize> {
        let mut connection = self.connection();
        if !send(&mut connection, plain)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match connection.writer().write(bytes)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => send(&mut connection, plain).map(|_| count),
        }
    }
}

/// Takes in what is there. False: nothing now.
fn receive(connection: &mut ClientConnection, plain: &Plain) -> io::Result<bool> {
    match connection.read_tls(&mut { plain }) {
        Ok(0) if connection.is_handshaking() => {
            let message =
                "it closed the connection during the TLS handshake: a port without TLS is redis:// or redlock://";
            Err(Refusal::error(StoreErrorKind::Unreachable, message))
        }
        // The end is for the reader to tell, after what came before it.
        Ok(_) => match connection.process_new_packets() {
            Ok(_) => Ok(true),
            Err(error) => {
                // Tells the other side why.
                let _ = connection.write_tls(&mut { plain });
                Err(refused(&error))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

/// Writes what is left. False: there is no room for all of it now.
fn send(connection: &mut ClientConnection, plain: &Plain) -> io::Result<bool> {
    while connection.wants_write() {
        match connection.write_tls(&mut { plain }) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                // What the server said before it hung up is the better reason.
                receive(connection, plain)?;
                return Err(error);
            }
        }
    }
    Ok(true)
}

/// What an error of TLS means, and what to do.
fn refused(error: &Error) -> io::Error {
    let (kind, cure) = match error {
        Error::InvalidCertificate(why) => (StoreErrorKind::Misconfigured, certificate_cure(why)),
        Error::InvalidMessage(_) => {
            (StoreErrorKind::Misconfigured, "it does not speak TLS: such a port is redis:// or redlock://")
        }
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                (StoreErrorKind::Denied, "it wants a client certificate: set cert_file and key_file")
            }
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError => {
                (StoreErrorKind::Denied, "it refuses our client certificate: set another cert_file and key_file")
            }
            AlertDescription::HandshakeFailure => (
                StoreErrorKind::Misconfigured,
                "it may want a client certificate (set cert_file and key_file), or have no cipher in common with us",
            ),
            AlertDescription::ProtocolVersion => {
                (StoreErrorKind::Misconfigured, "we have no TLS in common: it must allow 1.2 or 1.3")
            }
            _ => (StoreErrorKind::Unreachable, "it broke TLS off"),
        },
        Error::PeerIncompatible(_) => {
            (StoreErrorKind::Misconfigured, "we have no TLS in common: it must allow 1.2 or 1.3")
        }
        _ => (StoreErrorKind::Unexpected, "TLS failed"),
    };
    Refusal::error(kind, format!("{cure} ({error})"))
}

fn certificate_cure(why: &CertificateError) -> &'static str {
    match why {
        // A bad signature: an authority of that name, with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "nobody we trust has signed its certificate: name the right authority in ca_file"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it, or set our clock right"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: set our clock right"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name: use a name from it in the URL, or set server_name"
        }
        _ => "its certificate is no good",
    }
}

/// A failure that has its own kind and cure, on its way through `io::Error`.
#[derive(Debug)]
struct Refusal(Trouble);

impl Refusal {
    fn error(kind: StoreErrorKind, message: impl Into<String>) -> io::Error {
        io::Error::other(Self(Trouble::new(kind, message)))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Refusal {}

/// What TLS has to say about an error, if it is one of its own.
pub(crate) fn trouble(error: &io::Error) -> Option<Trouble> {
    let refusal = error.get_ref()?.downcast_ref::<Refusal>()?;
    Some(refusal.0.clone())
}
