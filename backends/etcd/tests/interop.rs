//! One lock for Fencepost and for `etcdctl lock`, both ways.

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use common::Place;
use fencepost_core::{Blocking, EventKind};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::etcd::etcdctl;
use fencepost_testkit::wait::until;

const TTL: Duration = Duration::from_secs(30);

/// `etcdctl lock`, which says the key once it has the lock and gives it up when it is asked to end.
struct Theirs(Child);

impl Theirs {
    fn start(place: &Place) -> Self {
        let mut command = etcdctl(&place.servers());
        command.args(["lock", "--ttl", "30", &format!("{}x", place.prefix)]);
        Self(command.stdout(Stdio::piped()).spawn().expect("a program that was found can be started"))
    }

    /// Waits until it has the lock.
    fn await_lock(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.0.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("text");
        line
    }

    fn end(&mut self) {
        let id = self.0.id().to_string();
        let kill = std::process::Command::new("kill").args(["-TERM", &id]).status().expect("runs");
        assert!(kill.success());
        self.0.wait().expect("our own child");
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_lock_of_etcdctl_keeps_us_out_and_its_end_lets_us_in() {
    for place in [Place::on_a_server(), Place::on_a_cluster()] {
        let locks = place.locks("ours");
        let mut theirs = Theirs::start(&place);
        assert!(theirs.await_lock().starts_with(&format!("{}x/", place.prefix)));
        for _ in 0..2 {
            assert!(locks.lock("x").try_acquire().block().expect("an answer").is_none());
            assert!(locks.lock("x").shared().try_acquire().block().expect("an answer").is_none());
        }
        let state = locks.inspect("x").block().expect("an answer");
        assert_eq!(state.holders.len(), 1, "{state:?}");
        let their_token = state.holders[0].token.expect("its create revision");
        let mut events = locks.events();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| locks.lock("x").ttl(TTL).wait_at_most(TTL).acquire().block());
            wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
            theirs.end();
            let guard = waiter.join().expect("no panic").expect("woken by their release");
            assert!(guard.token() > their_token);
        });
    }
}

#[test]
fn a_lock_of_ours_keeps_etcdctl_out_and_its_end_lets_it_in() {
    for place in [Place::on_a_server(), Place::on_a_cluster()] {
        let locks = place.locks("ours");
        let line = || locks.inspect("x").block().expect("an answer").waiters.len();
        let reader = locks.lock("x").ttl(TTL).shared().acquire().block().expect("free");
        let mut theirs = Theirs::start(&place);
        until("it is in line", || line() == 1);
        assert!(locks.lock("x").shared().try_acquire().block().expect("an answer").is_none(), "it overtook");
        reader.release().block().expect("released");
        theirs.await_lock();
        assert_eq!(line(), 0);
        theirs.end();
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
        let mut again = Theirs::start(&place);
        until("it is in line", || line() == 1);
        guard.release().block().expect("released");
        again.await_lock();
        assert!(locks.lock("x").try_acquire().block().expect("an answer").is_none());
        again.end();
    }
}

/// An operator may throw out what is not ours, too.
#[test]
fn a_lock_of_etcdctl_can_be_thrown_out() {
    let place = Place::on_a_server();
    let locks = place.locks("ours");
    let mut theirs = Theirs::start(&place);
    theirs.await_lock();
    let thrown_out = locks.force_release("x", "stuck").block().expect("an answer").holder.expect("somebody");
    let next = locks.lock("x").try_acquire().block().expect("an answer").expect("free");
    assert!(Some(next.token()) > thrown_out.token);
}
