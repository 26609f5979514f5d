//! TLS, on real servers: the whole contract, and what is said when it does not come about.

mod certificates;
mod found;

use std::pin::pin;
use std::time::{Duration, Instant};

use certificates::Authority;
use fencepost_core::{Blocking, Connect, EventKind, Guard, Locks, StoreError, StoreErrorKind, VirtualClock};
use fencepost_testkit::contract::edges::Reachable;
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::poll;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

/// A server answers within its deadline or is given up: 1 s, and as much again for a busy machine.
const SOON: Duration = Duration::from_secs(5);

/// Servers that speak TLS, alone or as a quorum.
struct Place {
    authority: Authority,
    servers: Vec<Server<Redis>>,
    scheme: &'static str,
}

impl Place {
    fn one() -> Self {
        Self::of(Authority::new().for_server("127.0.0.1"), "rediss", 1, "--tls-auth-clients no")
    }

    fn quorum(count: usize) -> Self {
        let authority = Authority::new().for_server("127.0.0.1");
        let place = Self::of(authority, "redlock+tls", count, "--tls-auth-clients no");
        fencepost_redis::init(place.scheme, &place.rest("")).block().expect("all are there");
        place
    }

    fn of(authority: Authority, scheme: &'static str, count: usize, options: &str) -> Self {
        let start = |_| Redis::new().tls(authority.folder()).with(options).start();
        Self { servers: (0..count).map(start).collect(), authority, scheme }
    }

    /// What comes after the scheme, with our authority's file.
    fn rest(&self, settings: &str) -> String {
        let addresses: Vec<String> = self.servers.iter().map(Server::address).collect();
        format!("//{}?ca_file={}{settings}", addresses.join(","), self.authority.file("ca.pem"))
    }

    fn connect_with(&self, settings: &str) -> Result<Locks, StoreError> {
        fencepost_redis::connect(self.scheme, &self.rest(settings)).block()
    }
}

impl Subject for Place {
    fn connect(&self) -> Connect {
        Self::reach(&self.address())
    }
}

impl Reachable for Place {
    fn address(&self) -> String {
        format!("{} {}", self.scheme, self.rest(""))
    }

    /// Answers may take longer than by default, for a machine that is busy with other tests.
    fn reach(address: &str) -> Connect {
        let (scheme, rest) = address.split_once(' ').expect("a scheme and the rest");
        let connect = fencepost_redis::connect(scheme, rest);
        if scheme == "redlock+tls" { connect.answer_within(Duration::from_secs(1)) } else { connect }
    }

    /// With its feature `logging`, which others turn on here, `rustls` logs while it connects.
    fn finest_log() -> log::LevelFilter {
        log::LevelFilter::Info
    }
}

mod one_server {
    fencepost_testkit::contract!(crate::Place::one());
}

mod redlock_of_three {
    fencepost_testkit::contract!(crate::Place::quorum(3));
}

/// The trouble, which came soon and says what to do.
fn refused(result: impl FnOnce() -> Result<Locks, StoreError>, cure: &str) -> StoreErrorKind {
    let started = Instant::now();
    let error = result().expect_err("there is something to refuse");
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    assert!(error.to_string().contains(cure), "{error}");
    error.kind
}

fn works(locks: &Locks) {
    let guard = locks.lock("a").acquire().block().expect("free");
    guard.release().block().expect("held");
}

#[test]
fn a_server_that_nobody_we_trust_has_signed_is_refused() {
    let (place, other) = (Place::one(), Authority::new());
    let rest = format!("//{}?ca_file={}", place.servers[0].address(), other.file("ca.pem"));
    let kind = refused(|| fencepost_redis::connect("rediss", &rest).block(), "ca_file");
    assert_eq!(kind, StoreErrorKind::Misconfigured);
}

#[test]
fn by_default_we_trust_whom_the_system_trusts() {
    let place = Place::one();
    let rest = format!("//{}", place.servers[0].address());
    let kind = refused(|| fencepost_redis::connect("rediss", &rest).block(), "ca_file");
    assert_eq!(kind, StoreErrorKind::Misconfigured);
}

#[test]
fn a_certificate_that_has_expired_is_refused() {
    let authority = Authority::new().for_server_until_2020("127.0.0.1");
    let place = Place::of(authority, "rediss", 1, "--tls-auth-clients no");
    assert_eq!(refused(|| place.connect_with(""), "expired"), StoreErrorKind::Misconfigured);
}

#[test]
fn a_certificate_for_another_name_is_refused_unless_that_name_is_given() {
    let authority = Authority::new().for_server("redis.example");
    let place = Place::of(authority, "rediss", 1, "--tls-auth-clients no");
    assert_eq!(refused(|| place.connect_with(""), "server_name"), StoreErrorKind::Misconfigured);
    works(&place.connect_with("&server_name=redis.example").expect("that is its name"));
}

#[test]
fn whoever_answers_is_believed_only_when_told_so() {
    let authority = Authority::new().for_server_until_2020("redis.example");
    let place = Place::of(authority, "rediss", 1, "--tls-auth-clients no");
    works(&place.connect_with("&insecure=true").expect("nothing is checked"));
    assert_eq!(refused(|| place.connect_with("&insecure=false"), "(invalid peer"), StoreErrorKind::Misconfigured);
}

#[test]
fn a_server_that_wants_to_know_us_is_told_who_we_are() {
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let authority = Authority::new().for_server("127.0.0.1").for_client();
        let options = format!("--tls-auth-clients yes --tls-protocols {protocol}");
        let place = Place::of(authority, "rediss", 1, &options);
        let (certificate, key) = (place.authority.file("client.pem"), place.authority.file("client.key"));
        works(&place.connect_with(&format!("&cert_file={certificate}&key_file={key}")).expect("it knows us"));
        if protocol == "TLSv1.3" {
            assert_eq!(refused(|| place.connect_with(""), "cert_file"), StoreErrorKind::Denied);
            let other = Authority::new().for_client();
            let stranger = format!("&cert_file={}&key_file={}", other.file("client.pem"), other.file("client.key"));
            assert_eq!(refused(|| place.connect_with(&stranger), "cert_file"), StoreErrorKind::Denied);
        } else {
            // There the alert says less.
            refused(|| place.connect_with(""), "cert_file");
        }
    }
}

#[test]
fn bad_files_and_settings_are_refused_by_name() {
    let (authority, other) = (Authority::new().for_client(), Authority::new().for_client());
    let (ca, certificate, key) = (authority.file("ca.pem"), authority.file("client.pem"), authority.file("client.key"));
    let (no_file, other_key) = (authority.file("none.pem"), other.file("client.key"));
    for (scheme, settings, field) in [
        ("rediss", format!("ca_file={no_file}"), "ca_file"),
        ("rediss", format!("ca_file={key}"), "ca_file"),
        ("rediss", format!("ca_file={ca}&cert_file={certificate}"), "cert_file"),
        ("rediss", format!("ca_file={ca}&key_file={key}"), "key_file"),
        ("rediss", format!("ca_file={ca}&cert_file={no_file}&key_file={key}"), "cert_file"),
        ("rediss", format!("ca_file={ca}&cert_file={certificate}&key_file={ca}"), "key_file"),
        ("rediss", format!("ca_file={ca}&cert_file={certificate}&key_file={other_key}"), "key_file"),
        ("rediss", format!("ca_file={ca}&server_name=a%20b"), "server_name"),
        ("rediss", "insecure=perhaps".to_owned(), "insecure"),
        ("redis", format!("ca_file={ca}"), "ca_file"),
        ("redlock", "insecure=true".to_owned(), "insecure"),
    ] {
        let rest = format!("//127.0.0.1:1?{settings}");
        let connect = || fencepost_redis::connect(scheme, &rest).block();
        let kind = refused(connect, &format!("invalid {field}"));
        assert_eq!(kind, StoreErrorKind::Misconfigured, "{settings}");
    }
}

#[test]
fn a_client_without_tls_is_told_that_the_port_may_have_it() {
    let place = Place::one();
    let rest = format!("//{}", place.servers[0].address());
    refused(|| fencepost_redis::connect("redis", &rest).block(), "rediss://");
}

#[test]
fn a_client_with_tls_is_told_that_the_port_has_none() {
    let (server, authority) = (Redis::new().start(), Authority::new());
    let rest = format!("//{}?ca_file={}", server.address(), authority.file("ca.pem"));
    refused(|| fencepost_redis::connect("rediss", &rest).block(), "redis://");
}

#[test]
fn a_server_that_never_answers_the_handshake_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    let authority = Authority::new();
    let rest = format!("//{address}?ca_file={}", authority.file("ca.pem"));
    let kind = refused(|| fencepost_redis::connect("rediss", &rest).block(), "no TLS handshake");
    assert_eq!(kind, StoreErrorKind::TooSlow);
}

#[test]
fn a_link_is_made_again_after_the_server_came_back() {
    let mut place = Place::one();
    let locks = place.locks("a");
    works(&locks);
    place.servers[0].restart();
    let started = Instant::now();
    while let Err(error) = locks.lock("b").acquire().block() {
        assert!(started.elapsed() < SOON * 6, "{error}");
        fencepost_testkit::wait::a_moment();
    }
}

#[test]
fn many_steps_at_once_and_long_answers_go_through() {
    let place = Place::one();
    let locks = place.locks(&"x".repeat(60));
    let hold = |thread: usize| -> Vec<Guard> {
        let name = |number| format!("{}/{thread}/{number}", "n".repeat(150));
        (0..50).map(|number| locks.lock(name(number)).acquire().block().expect("nobody else wants it")).collect()
    };
    let held: Vec<Guard> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || hold(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut feed = locks.list("n");
    let mut listed = 0;
    while let Some(state) = feed.next().block() {
        listed += usize::from(!state.expect("the server answers").holders.is_empty());
    }
    assert_eq!(listed, held.len());
}

/// Releases are told over TLS, too. Time stands still, so nobody looks by itself.
#[test]
fn one_that_waits_in_redissons_layout_is_woken() {
    let place = Place::one();
    let in_still_time = || {
        let clock = VirtualClock::new();
        let rest = place.rest("&layout=redisson");
        (fencepost_redis::connect("rediss", &rest).clock(&clock).block().expect("it is up"), clock)
    };
    let ((first, _one), (second, _other)) = (in_still_time(), in_still_time());
    let guard = first.lock("x").acquire().block().expect("free");
    let mut events = second.events();
    let lock = second.lock("x").wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    for _ in 0..2 {
        wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Voted(_)));
    }
    guard.release().block().expect("released");
    waiting.block().expect("its turn").release().block().expect("released");
}
