//! Servers that want to know who we are, and what they keep for us.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::kazoo::Kazoo;
use common::{Host, Place};
use fencepost_core::{AcquireError, Blocking, Connect, Locks, StoreErrorKind};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::wait::until;
use fencepost_testkit::zookeeper::ZooKeeper;

fn connect(place: &Place, user: &str, settings: &str) -> Connect {
    fencepost_zookeeper::connect("zookeeper", &format!("//{user}{}/{}{settings}", place.servers(), place.root))
}

/// What one user makes no other may touch.
#[test]
fn locks_of_a_user_are_for_whoever_knows_the_password() {
    // What is above the root is made with it, for that user alone.
    let place = Place { root: "guarded/locks".to_owned(), ..Place::on_a_server() };
    let locks = connect(&place, "app:secret@", "").block().expect("let in");
    let guard = locks.lock("x").acquire().block().expect("free");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "secret\n").expect("written");
    let from_file = format!("?password_file={}", file.path().display());
    let same = connect(&place, "app@", &from_file).block().expect("let in");
    assert!(same.lock("x").try_acquire().block().expect("an answer").is_none());
    for user in ["app:wrong@", "nobody:secret@", ""] {
        let error = connect(&place, user, "").block().expect_err("refused");
        assert_eq!(error.kind, StoreErrorKind::Denied, "{error}");
        assert!(!error.to_string().contains("wrong") && !error.to_string().contains("secret"), "{error}");
    }
    guard.release().block().expect("released");
    assert!(same.lock("x").try_acquire().block().expect("an answer").is_some());
}

#[test]
fn another_root_is_another_place() {
    let (one, two) = (Place::on_a_server(), Place::on_a_server());
    let (first, second) = (one.locks("one"), two.locks("two"));
    let held = first.lock("x").acquire().block().expect("free");
    assert!(second.lock("x").try_acquire().block().expect("an answer").is_some(), "locked by another place");
    assert!(second.list("").next().block().is_none_or(|state| state.expect("an answer").holders.is_empty()));
    drop(held);
}

/// Of the servers named, one is enough that answers.
#[test]
fn a_server_that_is_down_is_passed_over() {
    let place = Place::on_a_server();
    for servers in [format!("127.0.0.1:1,{}", place.servers()), format!("{},127.0.0.1:1", place.servers())] {
        let locks = place.connect_to(&servers).block().expect("one of them is up");
        assert!(locks.lock("x").acquire().block().is_ok());
    }
    let error = place.connect_to("127.0.0.1:1").block().expect_err("none is up");
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
}

/// A session that ended before a hold would be a loss that nobody is told of.
#[test]
fn a_ttl_that_outlives_the_longest_session_is_refused_with_the_longest_one() {
    let server = ZooKeeper::new().longest_session(Duration::from_secs(10)).start();
    let place = Place::on(Host::Server(Arc::new(server)));
    let locks = place.locks("one");
    match locks.lock("x").ttl(Duration::from_secs(9)).acquire().block() {
        Err(AcquireError::Invalid(invalid)) => {
            let text = invalid.to_string();
            assert!(text.contains("ttl") && text.contains("9s") && text.contains("8s"), "{text}");
        }
        unexpected => panic!("{unexpected:?}"),
    }
    assert!(locks.lock("x").ttl(Duration::from_secs(8)).acquire().block().is_ok());
    let careful = connect(&place, "", "?slack=7s").block().expect("it is up");
    assert!(careful.lock("y").ttl(Duration::from_secs(4)).acquire().block().is_err(), "less slack than was asked for");
    assert!(careful.lock("y").ttl(Duration::from_secs(3)).acquire().block().is_ok());
}

/// An empty lock goes when it is old enough; whoever comes meanwhile makes it again.
#[test]
fn the_node_of_a_lock_that_nobody_uses_goes_and_nobody_is_hurt() {
    let place = Place::on_a_server();
    let root = || connect(&place, "", "?remember=0s").block().expect("it is up");
    let connections: Vec<Locks> = (0..3).map(|_| root()).collect();
    std::thread::scope(|scope| {
        for locks in &connections {
            scope.spawn(move || {
                for _ in 0..30 {
                    let guard =
                        locks.lock("x").wait_at_most(Duration::from_secs(60)).acquire().block().expect("its turn");
                    guard.release().block().expect("released");
                }
            });
        }
    });
    let mut raw = Kazoo::start_at(&place.servers(), &format!("/{}", place.root));
    until("nothing is left", || raw.names().is_empty());
}

/// So does what a client that crashed has left, by whoever is there.
#[test]
fn old_locks_are_forgotten_by_other_connections() {
    let place = Place::on_a_server();
    place.locks("one").lock("x").acquire().block().expect("free").release().block().expect("released");
    let forgetful = connect(&place, "", "?remember=500ms").block().expect("it is up");
    let held = forgetful.lock("y").acquire().block().expect("free");
    let mut raw = Kazoo::start_at(&place.servers(), &format!("/{}", place.root));
    until("only the one that is held is left", || raw.names() == ["y"]);
    assert!(held.is_held());
}
