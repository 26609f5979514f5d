//! Ways in that are not the usual one: a unix socket, a user with few rights, a password kept elsewhere.

use std::process::Command;
use std::time::Duration;

use fencepost_core::{Blocking, Connect, Locks, StoreError, StoreErrorKind};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::contract::edges::Reachable;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use fencepost_testkit::wait::until;

const PASSWORD: &str = "canary-7c1f";

/// Servers, and what leads to them.
struct Place {
    servers: Vec<Server<Redis>>,
    scheme: &'static str,
    rest: String,
}

impl Place {
    fn by_socket() -> Self {
        let server = Redis::new().with("--unixsocket redis.sock").start();
        let rest = format!("//{}", server.folder().join("redis.sock").display());
        Self { servers: vec![server], scheme: "redis+unix", rest }
    }

    /// As a user with the rights of the README and no others, or with a few less.
    fn as_user(scheme: &'static str, count: usize, without: &[&str]) -> Self {
        Self::with_rights(scheme, count, "fencepost", without)
    }

    /// As the user of this name that the README has a line for.
    fn with_rights(scheme: &'static str, count: usize, name: &str, without: &[&str]) -> Self {
        let user = user_named(name, without);
        let servers: Vec<_> = (0..count).map(|_| Redis::new().with(&user).start()).collect();
        let node = |server: &Server<Redis>| format!("{name}:{PASSWORD}@{}", server.address());
        let nodes: Vec<String> = servers.iter().map(node).collect();
        let place = Self { servers, scheme, rest: format!("//{}", nodes.join(",")) };
        if count > 1 && without.is_empty() {
            fencepost_redis::init(place.scheme, &place.rest).block().expect("all are there");
        }
        place
    }
}

impl Subject for Place {
    fn connect(&self) -> Connect {
        Self::reach(&self.address())
    }
}

impl Reachable for Place {
    fn address(&self) -> String {
        format!("{} {}", self.scheme, self.rest)
    }

    /// Answers may take longer than by default, for a machine that is busy with other tests.
    fn reach(address: &str) -> Connect {
        let (scheme, rest) = address.split_once(' ').expect("a scheme and the rest");
        let connect = fencepost_redis::connect(scheme, rest);
        if scheme == "redlock" { connect.answer_within(Duration::from_secs(1)) } else { connect }
    }
}

/// The line of the README as an option.
fn user(without: &[&str]) -> String {
    user_named("fencepost", without)
}

fn user_named(name: &str, without: &[&str]) -> String {
    let readme = include_str!("../README.md");
    let from = readme.find(&format!("user {name} on ")).expect("the README has the line");
    let text = readme[from..].split("```").next().expect("a block has an end");
    let words = text.split_whitespace().filter(|word| !without.contains(word));
    format!("--{}", words.collect::<Vec<_>>().join(" ").replace("PASSWORD", PASSWORD))
}

mod by_socket {
    fencepost_testkit::contract!(crate::Place::by_socket());
}

mod redisson_by_socket {
    fn place() -> crate::Place {
        let place = crate::Place::by_socket();
        crate::Place { rest: format!("{}?layout=redisson", place.rest), ..place }
    }

    fencepost_testkit::contract!(place(), without line and readers);
}

mod with_few_rights {
    fencepost_testkit::contract!(crate::Place::as_user("redis", 1, &[]));
}

mod redisson_with_few_rights {
    fn place() -> crate::Place {
        let place = crate::Place::with_rights("redis", 1, "redisson", &[]);
        crate::Place { rest: format!("{}?layout=redisson&prefix=lock:", place.rest), ..place }
    }

    fencepost_testkit::contract!(place(), without line and readers);

    #[test]
    fn without_the_channel_the_error_says_what_is_missing() {
        let place = crate::Place::with_rights("redis", 1, "redisson", &["&redisson_lock__channel:*"]);
        let error = fencepost_redis::connect("redis", &format!("{}?layout=redisson", place.rest));
        let error = fencepost_core::Blocking::block(error).expect_err("not allowed to hear");
        assert_eq!(error.kind, fencepost_core::StoreErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("redisson_lock__channel:*"), "{error}");
    }
}

mod redlock_with_few_rights {
    fencepost_testkit::contract!(crate::Place::as_user("redlock", 3, &[]));
}

/// In a cluster, with what the README says that this takes beyond the line.
#[test]
fn in_a_cluster_with_replicas_a_user_needs_a_few_rights_more_and_no_others() {
    let readme = include_str!("../README.md");
    for more in ["+cluster|slots", "+cluster|myid", "+asking", "+wait"] {
        assert!(readme.contains(more), "the README does not name {more}");
    }
    let options = format!("{} +cluster|slots +cluster|myid +asking +wait {}", user(&[]), Cluster::options());
    let server = Redis::new().with(&options).start();
    assert_eq!(server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "+OK");
    until("it is a cluster", || server.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
    let rest = format!("//fencepost:{PASSWORD}@{}", server.address());
    let locks = fencepost_redis::connect("redis+cluster", &rest).block().expect("enough rights");
    works(&locks);
    let mut listed = locks.list("");
    assert_eq!(listed.next().block().expect("one").expect("an answer").name, "a");
    let locks = fencepost_redis::connect("redis+cluster", &format!("{rest}?replicas=1")).block().expect("enough");
    let error = locks.lock("a").acquire().block().expect_err("it has no replicas").to_string();
    assert!(error.contains("only 0 of the 1 replicas"), "{error}");
}

fn works(locks: &Locks) {
    let guard = locks.lock("a").acquire().block().expect("free");
    guard.release().block().expect("held");
}

/// The trouble, which says so and keeps the password to itself.
fn refused(result: Result<Locks, StoreError>, word: &str) -> StoreErrorKind {
    let error = result.expect_err("there is something to refuse");
    assert!(error.to_string().contains(word), "{error}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    error.kind
}

#[test]
fn one_server_works_without_the_right_to_read_its_settings() {
    let place = Place::as_user("redis", 1, &["+info", "+config|get"]);
    works(&place.locks("a"));
}

#[test]
fn a_quorum_says_that_it_needs_info() {
    let place = Place::as_user("redlock", 3, &["+info"]);
    assert_eq!(refused(place.connect().block(), "+info"), StoreErrorKind::Denied);
}

#[test]
fn a_missing_right_is_named() {
    let place = Place::as_user("redis", 1, &["+evalsha"]);
    let error = place.locks("a").lock("a").acquire().block().expect_err("no right").to_string();
    assert!(error.contains("evalsha") && !error.contains("canary"), "{error}");
    for (right, word) in [("~fp:*", "key"), ("&fp:inbox:*", "channel"), ("+script|load", "script")] {
        let place = Place::as_user("redis", 1, &[right]);
        assert_eq!(refused(place.connect().block(), word), StoreErrorKind::Denied, "{right}");
    }
}

#[test]
fn every_right_of_the_readme_is_needed() {
    let place = Place::as_user("redis", 1, &[]);
    let (locks, others) = (place.locks("a"), place.locks("b"));
    let evicted = locks.lock("a").acquire().block().expect("free");
    locks.force_release("a", "a test").block().expect("held");
    drop(evicted);
    let held = locks.lock("b").acquire().block().expect("free");
    std::thread::scope(|scope| {
        scope.spawn(|| drop(others.lock("b").wait_forever().acquire().block().expect("handed over")));
        fencepost_testkit::wait::until("it is in line", || {
            !locks.inspect("b").block().expect("it answers").waiters.is_empty()
        });
        drop(held);
    });
    let reader = locks.lock("c").shared().acquire().block().expect("free");
    let mut feed = locks.list("");
    while feed.next().block().is_some() {}
    reader.release().block().expect("held");
    let used = place.servers[0].ask(&["INFO", "commandstats"]);
    for right in user(&[]).split(' ').filter_map(|word| word.strip_prefix('+')) {
        assert!(used.contains(&format!("cmdstat_{right}:")), "{right} is not used:\n{used}");
    }
}

#[test]
fn a_wrong_password_is_denied_and_not_repeated() {
    let server = Redis::new().with("--requirepass another").start();
    let rest = format!("//:{PASSWORD}@{}", server.address());
    assert_eq!(refused(fencepost_redis::connect("redis", &rest).block(), "pass"), StoreErrorKind::Denied);
    let rest = format!("//{}", server.address());
    assert_eq!(refused(fencepost_redis::connect("redis", &rest).block(), "pass"), StoreErrorKind::Denied);
    // Where everybody may come in without one, what follows is done all the same, and answered in the old dialect.
    let open = Redis::new().start();
    let rest = format!("//nobody:{PASSWORD}@{}", open.address());
    assert_eq!(refused(fencepost_redis::connect("redis", &rest).block(), "pass"), StoreErrorKind::Denied);
}

#[test]
fn a_password_is_in_no_picture_of_a_connection() {
    let server = Redis::new().with(&format!("--requirepass {PASSWORD}")).start();
    let locks = fencepost_redis::connect("redis", &format!("//:{PASSWORD}@{}", server.address())).block();
    let locks = locks.expect("the right password");
    let guard = locks.lock("a").acquire().block().expect("free");
    let pictures = format!("{locks:?} {guard:?} {:?} {:?}", guard.votes(), locks.guarantees());
    assert!(!pictures.contains("canary"), "{pictures}");
    drop((guard, locks));
    assert!(!server.log().contains("canary"));
}

#[test]
fn a_password_may_come_from_a_file() {
    let server = Redis::new().with(&user(&[])).start();
    let file = server.folder().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).expect("a file");
    let rest = format!("//fencepost@{}?password_file={}", server.address(), file.display());
    works(&fencepost_redis::connect("redis", &rest).block().expect("the right password"));
}

#[test]
fn a_password_may_come_from_the_environment() {
    const REST: &str = "FENCEPOST_TEST_REST";
    if let Ok(rest) = std::env::var(REST) {
        return works(&fencepost_redis::connect("redis", &rest).block().expect("the right password"));
    }
    let server = Redis::new().with(&format!("--requirepass {PASSWORD}")).start();
    let mut same_test = Command::new(std::env::current_exe().expect("our own program"));
    same_test.args(["--exact", "a_password_may_come_from_the_environment"]);
    same_test.env(REST, format!("//{}", server.address())).env("FENCEPOST_REDIS_PASSWORD", PASSWORD);
    let output = same_test.output().expect("our own program can be run");
    assert!(output.status.success(), "{output:?}");
}
