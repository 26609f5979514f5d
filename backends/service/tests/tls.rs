//! The contract of every back end through `fencepost+https://`, by a caller with a key: one replica, on one file.

mod common;

#[path = "../../redis/tests/tls/certificates.rs"]
#[allow(dead_code, reason = "shared with the tests of Redis, which need more of it")]
mod certificates;

use std::time::Duration;

use certificates::Authority;
use common::Replica;
use fencepost_core::{Blocking as _, Connect};
use fencepost_server::auth::{ApiKey, key_entry};
use fencepost_server::{Settings, TlsFiles};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::contract::edges::Reachable;

/// A service that proves who it is, and asks who others are.
struct Guarded {
    replica: Replica,
    authority: Authority,
    folder: tempfile::TempDir,
}

impl Guarded {
    fn new() -> Self {
        let authority = Authority::new().for_server("localhost");
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let key = ApiKey::random().expect("random");
        let all = ["acquire:*", "observe:*", "admin:*"].map(|scope| scope.parse().expect("a scope"));
        std::fs::write(file("auth.toml"), key_entry("tests", &key.digest(), &all).expect("an entry")).expect("a file");
        std::fs::write(file("key"), key.expose()).expect("a file");
        let of = |name: &str| authority.folder().join(name);
        let tls = TlsFiles { cert: of("server.pem"), key: of("server.key"), client_ca: None };
        let settings = Settings::default().drain(Duration::from_millis(200));
        let settings = settings.auth_file(file("auth.toml")).expect("good").tls(&tls).expect("good");
        let store = fencepost_sqlite::connect(file("locks.db").to_str().expect("UTF-8"));
        Self { replica: Replica::with(store, settings), authority, folder }
    }

    fn reached(&self, host: &str, ca: &str) -> Connect {
        Self::reach(&self.address_at(host, ca))
    }

    fn address_at(&self, host: &str, ca: &str) -> String {
        let port = self.replica.address.rsplit(':').next().expect("a port");
        let key = self.folder.path().join("key");
        let settings = format!("ca_file={ca}&api_key_file={}", key.display());
        format!("//{host}:{port}?{settings}")
    }
}

impl Subject for Guarded {
    fn connect(&self) -> Connect {
        Self::reach(&self.address())
    }
}

impl Reachable for Guarded {
    fn address(&self) -> String {
        self.address_at("localhost", &self.authority.file("ca.pem"))
    }

    fn reach(address: &str) -> Connect {
        fencepost_service::connect("fencepost+https", address)
    }

    /// With its feature `logging`, which others turn on here, `rustls` logs while it connects.
    fn finest_log() -> log::LevelFilter {
        log::LevelFilter::Info
    }
}

mod through_tls {
    fencepost_testkit::contract!(crate::Guarded::new());
}

#[test]
fn a_service_that_does_not_prove_who_it_is_is_told_nothing() {
    let service = Guarded::new();
    let stranger = Authority::new();
    assert!(service.connect().block().is_ok());
    assert!(service.reached("localhost", &stranger.file("ca.pem")).block().is_err(), "another authority");
    assert!(service.reached("127.0.0.1", &service.authority.file("ca.pem")).block().is_err(), "another host");
    let port = service.replica.address.rsplit(':').next().expect("a port");
    let in_the_clear = fencepost_service::connect("fencepost+http", &format!("//localhost:{port}"));
    assert!(in_the_clear.block().is_err());
    let no_key = format!("//localhost:{port}?ca_file={}", service.authority.file("ca.pem"));
    let refused = fencepost_service::connect("fencepost+https", &no_key).block();
    assert!(refused.is_err_and(|error| !error.to_string().is_empty()), "nobody knows us");
}
