//! Servers that are found, by TLS all the way: to the sentinel and to whom it names, and from node to node.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fencepost_core::{Blocking, StoreErrorKind};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::ports::free_port;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::sentinels::{MASTER, Sentinel};
use fencepost_testkit::server::Server;
use fencepost_testkit::wait::until;

use crate::certificates::Authority;

fn works(scheme: &str, rest: &str) {
    let locks = fencepost_redis::connect(scheme, rest).block().expect("TLS comes about");
    for name in ["a", "b", "c"] {
        let guard = locks.lock(name).ttl(Duration::from_secs(10)).acquire().block().expect("free");
        guard.renew().block().expect("held");
        guard.release().block().expect("released");
    }
}

#[test]
fn a_sentinel_and_the_master_it_names_are_reached_by_tls() {
    let authority = Authority::new().for_server("127.0.0.1");
    let server = Redis::new().tls(authority.folder()).with("--tls-auth-clients no").start();
    let port = free_port();
    let sentinel = Server::start(
        Sentinel::watching(server.port())
            .with(&format!("tls-port {port}"))
            .with("tls-replication yes")
            .with("tls-auth-clients no")
            .with(&format!("tls-cert-file {}", authority.file("server.pem")))
            .with(&format!("tls-key-file {}", authority.file("server.key")))
            .with(&format!("tls-ca-cert-file {}", authority.file("ca.pem"))),
    );
    let ca = authority.file("ca.pem");
    works("rediss+sentinel", &format!("//127.0.0.1:{port}/{MASTER}?ca_file={ca}"));
    // Its port without TLS is none for this URL.
    let plain = format!("//{}/{MASTER}?ca_file={ca}", sentinel.address());
    let error = fencepost_redis::connect("rediss+sentinel", &plain).block().expect_err("no TLS there");
    assert!(matches!(
        error.kind,
        StoreErrorKind::Misconfigured | StoreErrorKind::Unreachable | StoreErrorKind::TooSlow
    ));
}

#[test]
fn a_cluster_is_followed_by_tls() {
    let authority = Authority::new().for_server("127.0.0.1");
    let plain = free_port();
    let options = format!("--tls-auth-clients no --tls-cluster yes {} --port {plain}", Cluster::options());
    let server = Redis::new().tls(authority.folder()).with(&options).start();
    assert!(ask(plain, "CLUSTER ADDSLOTSRANGE 0 16383").starts_with("+OK"));
    until("it is a cluster", || ask(plain, "CLUSTER INFO").contains("cluster_state:ok"));
    works("rediss+cluster", &format!("//{}?ca_file={}", server.address(), authority.file("ca.pem")));
}

fn ask(port: u16, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("its port without TLS");
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an answer");
    reply
}
