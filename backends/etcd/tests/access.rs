//! Clusters that want to know who we are.

mod common;

use std::sync::Arc;

use common::{Host, Place};
use fencepost_core::{Blocking, Connect, StoreErrorKind};
use fencepost_testkit::etcd::{Etcd, etcdctl};
use fencepost_testkit::wait::until;

/// A server of its own with the users `root`, and `app`, who may use the keys below `fencepost/`.
fn guarded() -> Place {
    let place = Place::on(Host::Server(Arc::new(Etcd::new().start())));
    for words in [
        "user add root:secret",
        "user grant-role root root",
        "role add locks",
        "role grant-permission locks --prefix=true readwrite fencepost/",
        "user add app:secret",
        "user grant-role app locks",
        "auth enable",
    ] {
        let output = etcdctl(&place.servers()).args(words.split(' ')).output().expect("runs");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
    place
}

fn as_user(place: &Place, user: &str, settings: &str) -> Connect {
    fencepost_etcd::connect("etcd", &format!("//{user}@{}{settings}", place.servers()))
}

/// Its members forget what showed who we are when they start anew, as they do after some minutes.
#[test]
fn who_is_known_by_name_and_password_is_known_again_after_a_restart() {
    let mut place = guarded();
    let locks = as_user(&place, "app:secret", "").block().expect("let in");
    let guard = locks.lock("x").acquire().block().expect("free");
    let Host::Server(server) = &mut place.host else { unreachable!("BUG: made above") };
    Arc::get_mut(server).expect("its own").restart();
    until("it answers", || locks.inspect("x").block().is_ok());
    guard.renew().block().expect("kept");
    let other = as_user(&place, "app:secret", "").block().expect("let in");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.lock("x").wait_forever().acquire().block());
        until("it waits", || locks.inspect("x").block().is_ok_and(|state| state.waiters.len() == 1));
        guard.release().block().expect("released");
        assert!(waiter.join().expect("no panic").expect("its turn").is_held());
    });
}

#[test]
fn who_is_not_known_or_may_not_is_refused() {
    let place = guarded();
    for (user, settings) in [("app:wrong", ""), ("nobody:secret", ""), ("app:secret", "?prefix=other/")] {
        let error = as_user(&place, user, settings).block().expect_err("refused");
        assert_eq!(error.kind, StoreErrorKind::Denied, "{error}");
        assert!(!error.to_string().contains("wrong") && !error.to_string().contains("secret"), "{error}");
    }
    let refused = fencepost_etcd::connect("etcd", &format!("//{}", place.servers())).block().expect_err("no name");
    assert_eq!(refused.kind, StoreErrorKind::Denied, "{refused}");
}

#[test]
fn a_cluster_that_asks_nobody_is_told_no_password() {
    let place = Place::on_a_server();
    let locks = as_user(&place, "app:secret", "").block().expect("let in");
    assert!(locks.lock("access").try_acquire().block().expect("an answer").is_some());
}

/// A command that runs every minute must not fill the cluster with leases.
#[test]
fn connections_of_one_day_share_the_lease_of_what_is_remembered() {
    let place = Place::on(Host::Server(Arc::new(Etcd::new().start())));
    let leases = || {
        let output = etcdctl(&place.servers()).args(["lease", "list"]).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.lines().filter(|line| line.len() == 16 && line.bytes().all(|byte| byte.is_ascii_hexdigit())).count()
    };
    for _ in 0..10 {
        drop(fencepost_etcd::connect("etcd", &format!("//{}", place.servers())).block().expect("let in"));
    }
    // Two, if midnight came in between.
    assert!((1..=2).contains(&leases()), "{} leases", leases());
}
