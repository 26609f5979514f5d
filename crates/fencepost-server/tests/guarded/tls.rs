//! TLS: the service proves who it is, a client may, and certificates change while it runs.

#[path = "../../../../backends/redis/tests/tls/certificates.rs"]
#[allow(dead_code, reason = "shared with the tests of the back ends, which need more of it")]
mod certificates;

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use certificates::Authority;
use fencepost_server::{Settings, TlsFiles};
use fencepost_testkit::wait::until;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::support::{Answer, Files, Request, Service, key};

fn settings(authority: &Authority, client_ca: bool) -> TlsFiles {
    let file = |name: &str| authority.folder().join(name);
    TlsFiles { cert: file("server.pem"), key: file("server.key"), client_ca: client_ca.then(|| file("ca.pem")) }
}

/// A client that trusts this authority, and may show a certificate of one.
fn client(trusted: &Authority, shown: Option<&Authority>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted.folder().join("ca.pem")).expect("a root")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let builder = builder.with_root_certificates(roots);
    Arc::new(match shown {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let certificate =
                CertificateDer::from_pem_file(authority.folder().join("client.pem")).expect("a certificate");
            let key = PrivateKeyDer::from_pem_file(authority.folder().join("client.key")).expect("a key");
            builder.with_client_auth_cert(vec![certificate], key).expect("they fit")
        }
    })
}

fn ask(service: &Service, client: &Arc<ClientConfig>, request: &Request) -> std::io::Result<Answer> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(client.clone(), name).map_err(std::io::Error::other)?;
    let mut stream: StreamOwned<_, TcpStream> = StreamOwned::new(connection, service.connect());
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    std::io::Write::write_all(&mut stream, &request.bytes())?;
    // A refused certificate is told with the first bytes that are read.
    let mut first = [0];
    std::io::Read::read_exact(&mut stream, &mut first)?;
    Ok(Answer::read(&mut std::io::Read::chain(&first[..], stream)))
}

fn look(path: &str, key: Option<&str>) -> Request {
    Request::new("GET", path).key(key)
}

#[test]
fn a_certificate_is_a_credential_by_a_name_in_it() {
    let authority = Authority::new().for_server("localhost").for_client_called("orders.internal");
    let stranger = Authority::new().for_client_called("orders.internal");
    let files = Files::new();
    let (secret, entry) = key("by key", &["observe:keys/"]);
    let entries = format!(
        "{entry}\n[[certificate]]\nprincipal = 'orders'\nsan = 'orders.internal'\nallow = ['observe:orders/']\n"
    );
    let auth = files.write("auth.toml", &entries);
    let settings = Settings::default().auth_file(auth).expect("a file").tls(&settings(&authority, true)).expect("TLS");
    let service = Service::start(settings);
    let status = |client: &Arc<ClientConfig>, path: &str, key: Option<&str>| {
        ask(&service, client, &look(path, key)).map(|answer| answer.status)
    };
    let (known, unknown) = (client(&authority, Some(&authority)), client(&authority, None));
    assert_eq!(status(&known, "/v1/locks/orders%2F1", None).expect("an answer"), 200);
    assert_eq!(status(&known, "/v1/locks/keys%2F1", None).expect("an answer"), 403, "its own rights only");
    assert_eq!(status(&unknown, "/v1/locks/orders%2F1", None).expect("an answer"), 401);
    assert_eq!(status(&unknown, "/v1/locks/keys%2F1", Some(&secret)).expect("an answer"), 200, "a key will do");
    // What is said aloud counts: a wrong key is not made good by a certificate.
    assert_eq!(status(&known, "/v1/locks/orders%2F1", Some("fpk_wrong")).expect("an answer"), 401);
    assert_eq!(status(&known, "/v1/locks/keys%2F1", Some(&secret)).expect("an answer"), 200);
    let forged = status(&client(&authority, Some(&stranger)), "/v1/locks/orders%2F1", None);
    assert!(forged.is_err(), "signed by somebody else: {forged:?}");
    assert!(ask(&service, &client(&stranger, None), &look("/healthz", None)).is_err(), "the client does not trust us");
}

#[test]
fn plain_http_gets_nothing_from_a_port_with_tls() {
    let authority = Authority::new().for_server("localhost");
    let service = Service::start(Settings::default().tls(&settings(&authority, false)).expect("TLS"));
    let mut stream = service.connect();
    std::io::Write::write_all(&mut stream, &look("/healthz", None).bytes()).expect("sent");
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/"), "{answer:?}");
    assert_eq!(ask(&service, &client(&authority, None), &look("/healthz", None)).expect("an answer").status, 200);
}

#[test]
fn certificates_are_read_again_and_a_broken_one_changes_nothing() {
    let (first, second) = (Authority::new().for_server("localhost"), Authority::new().for_server("localhost"));
    let files = settings(&first, false);
    let settings = Settings::default().look_every(Duration::from_millis(5)).tls(&files).expect("TLS");
    let service = Service::start(settings);
    let trusts = |authority: &Authority| ask(&service, &client(authority, None), &look("/healthz", None)).is_ok();
    assert!(trusts(&first) && !trusts(&second));
    // The new certificate with the old key: nobody can use that.
    std::fs::copy(second.folder().join("server.pem"), &files.cert).expect("a file");
    assert!(trusts(&first));
    std::fs::copy(second.folder().join("server.key"), &files.key).expect("a file");
    until("the new certificate is shown", || trusts(&second));
    assert!(!trusts(&first));
}

#[test]
fn bad_files_are_refused_by_name_and_never_shown() {
    let authority = Authority::new().for_server("localhost");
    let other = Authority::new().for_server("localhost");
    let refused = |files: TlsFiles| Settings::default().tls(&files).expect_err("refused");
    let missing = TlsFiles { cert: "/nowhere.pem".into(), ..settings(&authority, false) };
    assert!(refused(missing).contains("/nowhere.pem"));
    let swapped = TlsFiles { cert: authority.folder().join("server.key"), ..settings(&authority, false) };
    assert!(refused(swapped).contains("certificate"));
    let misfit = TlsFiles { key: other.folder().join("server.key"), ..settings(&authority, false) };
    assert!(refused(misfit).contains("do not fit"));
    // Certificates of clients say who, and the file of credentials says what they may.
    let alone = Settings::default()
        .tls(&settings(&authority, true))
        .expect("TLS")
        .checked("127.0.0.1:1".parse().expect("an address"));
    assert!(alone.expect_err("refused").contains("auth-file"));
}
