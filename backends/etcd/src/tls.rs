//! TLS: whom we trust, and what we show.

use std::path::Path;

use fencepost_core::Invalid;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::url::Settings;

/// Where systems keep the certificates that they trust: Debian and most others, Fedora, openSUSE, BSD and macOS.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Makes connections speak TLS, if the URL says so.
pub(crate) fn dress(endpoint: Endpoint, settings: &Settings, server: &str) -> Result<Endpoint, Invalid> {
    if !settings.tls {
        return Ok(endpoint);
    }
    let named = settings.ca_file.clone().or_else(|| std::env::var("SSL_CERT_FILE").ok());
    let found = SYSTEM_ROOTS.iter().find(|path| Path::new(path).is_file()).map(|path| (*path).to_owned());
    let cure = "this system has no file of trusted certificates where we look: name one in ca_file";
    let path = named.or(found).ok_or_else(|| Invalid::new("ca_file", "", cure))?;
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read("ca_file", &path)?));
    if let (Some(certificate), Some(key)) = (&settings.cert_file, &settings.key_file) {
        let shown = Identity::from_pem(read("cert_file", certificate)?, read("key_file", key)?);
        config = config.identity(shown);
    }
    let cure = "name PEM files with certificates and a key in ca_file, cert_file and key_file";
    endpoint.tls_config(config).map_err(|error| Invalid::new("store", server, format!("{cure}: {error}")))
}

fn read(field: &'static str, path: &str) -> Result<Vec<u8>, Invalid> {
    std::fs::read(path).map_err(|error| Invalid::new(field, path, format!("name a file that can be read: {error}")))
}
