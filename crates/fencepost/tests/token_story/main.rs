//! The story everyone knows, end to end, for each place that people write to: A holds the lock, is stopped for longer than
//! its lease, B gets the lock and writes, A goes on and writes. With the check at the resource B's data stands; without
//! it, B's data is lost.

mod resources;

use std::time::Duration;

use fencepost::fence::Stale;
use fencepost::{Blocking, FencingToken};
use fencepost_testkit::process::{self, Other};
use fencepost_testkit::wait::until;
use resources::Resource;

/// Whether the resource is asked for its opinion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Check {
    Done,
    LeftOut,
}

/// Not a test of its own: A, in a process that can be stopped.
#[test]
fn in_another_process() {
    let Some((kind, place)) = process::role() else { return };
    let [store, address, check] = place.split('|').collect::<Vec<_>>().try_into().expect("three words");
    let check = if check == "checked" { Check::Done } else { Check::LeftOut };
    let locks = fencepost::connect(store).label("A").block().expect("the store is up");
    let guard = locks.lock("x").ttl(Duration::from_secs(1)).acquire().block().expect("free");
    let token = guard.token();
    process::say(&format!("token {token}"));
    process::await_leave();
    // It looked at its guard before it was stopped; now it is too late to look again.
    match Resource::at(&kind, address).write(token, "by A", check == Check::Done) {
        Ok(()) => process::say("written"),
        Err(Stale { seen, .. }) => process::say(&format!("stale {seen}")),
    }
}

fn story(resource: &Resource, check: Check) {
    let checked = if check == Check::Done { "checked" } else { "unchecked" };
    let place = format!("{}|{}|{checked}", resource.store(), resource.address());
    let mut a = Other::start(resource.kind(), &place);
    let old: FencingToken = a.says("token ").parse().expect("a token");
    a.stop();
    let locks = fencepost::connect(resource.store()).label("B").block().expect("the store is up");
    let guard = locks.lock("x").wait_forever().acquire().block().expect("free after the ttl of A");
    let new = guard.token();
    assert!(new > old);
    resource.write(new, "by B", check == Check::Done).expect("the newest token");
    a.resume();
    a.give_leave();
    match check {
        Check::Done => {
            assert_eq!(a.says("stale "), new.to_string(), "it says what was seen");
            assert_eq!(resource.read(), "by B");
            resource.write(new, "by B again", true).expect("an equal token is accepted");
            assert_eq!(resource.read(), "by B again");
        }
        Check::LeftOut => {
            a.says("written");
            until("B's data is lost", || resource.read() == "by A");
        }
    }
}

macro_rules! stories {
    ($($kind:ident),+) => {$(
        mod $kind {
            use super::{Check, Resource, story};

            #[test]
            fn a_paused_holders_write_is_rejected() {
                story(&Resource::$kind(), Check::Done);
            }

            #[test]
            fn without_the_check_the_new_holders_write_is_lost() {
                story(&Resource::$kind(), Check::LeftOut);
            }
        }
    )+};
}

stories!(etcd, zookeeper, postgres, mysql, sqlite, redis, file, http, postgres_column, mysql_column, redis_hash);
