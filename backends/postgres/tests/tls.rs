//! TLS: spoken if asked for, and only with a server that proves who it is.

#[path = "../../redis/tests/tls/certificates.rs"]
#[allow(dead_code, reason = "shared with the tests of Redis, which need more of it")]
mod certificates;
mod common;

use std::sync::Arc;

use certificates::Authority;
use common::Place;
use fencepost_core::{Blocking, StoreErrorKind};
use fencepost_testkit::postgres::Postgres;
use fencepost_testkit::sql::SqlPlace;

#[test]
fn a_server_that_proves_who_it_is_is_spoken_to_by_tls() {
    let authority = Authority::new().for_server("localhost");
    let place = Place::on(Arc::new(Postgres::new().tls(authority.folder()).start()));
    let settings = format!("&sslmode=require&ca_file={}", authority.file("ca.pem"));
    let address = place.address().replace("127.0.0.1", "localhost");
    let locks = place.connect_with(&address, &settings).block().expect("trusted");
    let guard = locks.lock("x").acquire().block().expect("free");
    let encrypted = place.session().number("SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'fencepost'");
    assert!(encrypted > 0, "in the clear");
    guard.release().block().expect("released");
}

#[test]
fn a_server_that_is_not_who_it_should_be_is_refused() {
    let authority = Authority::new().for_server("localhost");
    let place = Place::on(Arc::new(Postgres::new().tls(authority.folder()).start()));
    let stranger = Authority::new();
    let trusting = |ca_file: String| format!("&sslmode=require&ca_file={ca_file}");
    let localhost = place.address().replace("127.0.0.1", "localhost");
    let other_name = place.connect_with(&place.address(), &trusting(authority.file("ca.pem"))).block();
    let other_authority = place.connect_with(&localhost, &trusting(stranger.file("ca.pem"))).block();
    for refused in [other_name, other_authority] {
        assert_ne!(refused.expect_err("not proved").kind, StoreErrorKind::Misconfigured);
    }
}

#[test]
fn a_server_without_tls_is_refused_where_tls_is_asked_for() {
    let (authority, place) = (Authority::new(), Place::new());
    let settings = format!("&sslmode=require&ca_file={}", authority.file("ca.pem"));
    assert!(place.connect_with(&place.address(), &settings).block().is_err());
    let missing = place.connect_with(&place.address(), "&sslmode=require&ca_file=/nowhere.pem").block();
    assert!(missing.is_err());
}
