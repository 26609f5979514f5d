//! An authority of a test's own, and what it signs.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use tempfile::TempDir;

/// A folder with `ca.pem`, and with a certificate and a key for each who was signed.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one that nobody knows.
    pub(crate) fn new() -> Self {
        let folder = TempDir::with_prefix("fencepost-certificates-").expect("a temporary folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "an authority for tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("a file");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// Signs who the server is: `server.pem` and `server.key`.
    pub(crate) fn for_server(self, name: &str) -> Self {
        self.sign("server", CertificateParams::new([name.to_owned()]).expect("a name"));
        self
    }

    /// The same with a certificate that is over.
    pub(crate) fn for_server_until_2020(self, name: &str) -> Self {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
        self.sign("server", params);
        self
    }

    /// Signs who a client is: `client.pem` and `client.key`.
    pub(crate) fn for_client(self) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "a client");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign("client", params);
        self
    }

    /// The same with a name that a service knows it by.
    #[allow(dead_code, reason = "for the tests of the service")]
    pub(crate) fn for_client_called(self, name: &str) -> Self {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign("client", params);
        self
    }

    fn sign(&self, who: &str, params: CertificateParams) {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(self.folder.path().join(format!("{who}.pem")), certificate.pem()).expect("a file");
        fs::write(self.folder.path().join(format!("{who}.key")), key.serialize_pem()).expect("a file");
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where one of its files is.
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}
