//! TLS: spoken if asked for, with a server that proves who it is, by a client that does.

#[path = "../../redis/tests/tls/certificates.rs"]
#[allow(dead_code, reason = "shared with the tests of Redis, which need more of it")]
mod certificates;

use certificates::Authority;
use fencepost_core::{Blocking, Connect};
use fencepost_testkit::etcd::Etcd;
use fencepost_testkit::server::Server;

fn connect(server: &Server<Etcd>, host: &str, files: &[(&str, String)]) -> Connect {
    let files: Vec<String> = files.iter().map(|(setting, file)| format!("{setting}={file}")).collect();
    let place = format!("//{host}:{}?{}", server.port(), files.join("&"));
    fencepost_etcd::connect("etcd+tls", &place)
}

#[test]
fn both_sides_prove_who_they_are() {
    let authority = Authority::new().for_server("localhost").for_client();
    let server = Etcd::new().tls(authority.folder()).start();
    let file = |name: &str| authority.file(name);
    let shown = [("cert_file", file("client.pem")), ("key_file", file("client.key")), ("ca_file", file("ca.pem"))];
    let locks = connect(&server, "localhost", &shown).block().expect("trusted");
    let guard = locks.lock("x").acquire().block().expect("free");
    guard.renew().block().expect("kept");
    guard.release().block().expect("released");
}

#[test]
fn who_proves_nothing_is_refused() {
    let authority = Authority::new().for_server("localhost").for_client();
    let stranger = Authority::new().for_client();
    let server = Etcd::new().tls(authority.folder()).start();
    let of = |authority: &Authority, trusted: &Authority| {
        let (pem, key, ca) = (authority.file("client.pem"), authority.file("client.key"), trusted.file("ca.pem"));
        [("cert_file", pem), ("key_file", key), ("ca_file", ca)]
    };
    let nothing_shown = connect(&server, "localhost", &[("ca_file", authority.file("ca.pem"))]);
    let not_trusted = connect(&server, "localhost", &of(&authority, &stranger));
    let not_theirs = connect(&server, "localhost", &of(&stranger, &authority));
    let another_host = connect(&server, "127.0.0.1", &of(&authority, &authority));
    for refused in [nothing_shown, not_trusted, not_theirs, another_host] {
        assert!(refused.block().is_err());
    }
    let in_the_clear = fencepost_etcd::connect("etcd", &format!("//localhost:{}", server.port()));
    assert!(in_the_clear.block().is_err());
    assert!(connect(&server, "localhost", &[("ca_file", "/nowhere.pem".to_owned())]).block().is_err());
}
