//! TLS: our certificate, and whose certificates we trust. Read again when a file changes.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use webpki::EndEntityCert;

use crate::watched::Watched;

/// The files behind a listener that speaks TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate chain, PEM, our own first.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Who signs certificates of clients, PEM. `None`: clients show keys.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads them. An error names the file and repeats nothing of it.
    pub(crate) fn open(&self) -> Result<Watched<ServerConfig>, String> {
        let mut paths = vec![self.cert.clone(), self.key.clone()];
        paths.extend(self.client_ca.clone());
        Watched::open("certificates", paths, |files| match files {
            [cert, key] => config(cert, key, None),
            [cert, key, client_ca] => config(cert, key, Some(client_ca)),
            _ => Err("BUG: other files than were asked for".into()),
        })
    }
}

fn config(cert: &[u8], key: &[u8], client_ca: Option<&[u8]>) -> Result<ServerConfig, String> {
    let chain = certificates(cert).map_err(|why| format!("certificate: {why}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("private key: no PEM key in it: {error}"))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(pem).map_err(|why| format!("client CA: {why}"))? {
                roots.add(root).map_err(|error| format!("client CA: {error}"))?;
            }
            // Whoever shows none may still show a key; what is shown must be good.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.allow_unauthenticated().build().map_err(|error| format!("client CA: {error}"))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| format!("certificate and private key do not fit: {error}"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("no PEM certificate in it".into()),
        other => other.map_err(|error| format!("no PEM certificate in it: {error}")),
    }
}

/// The names of whoever proved to have this certificate: its DNS names and URIs, as they stand in it.
pub(crate) fn names(chain: Option<&[CertificateDer<'_>]>) -> Vec<String> {
    let Some(certificate) = chain.and_then(<[_]>::first) else { return Vec::new() };
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    certificate.valid_dns_names().chain(certificate.valid_uri_names()).map(str::to_owned).collect()
}
