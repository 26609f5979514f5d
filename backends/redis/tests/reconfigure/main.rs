//! One set of servers that vote takes the place of another, while clients of either work.

mod crew;
mod faults;
mod refusals;

use std::time::Duration;

use crew::{Change, Notes, TTL, Worker, connect, has_both_clients, has_old_clients, is_closing, start};
use fencepost_core::Blocking;
use fencepost_redis::Progress;
use fencepost_testkit::preload::Clocks;
use fencepost_testkit::process::{role, say};
use fencepost_testkit::redis::{Edition, Redis};
use fencepost_testkit::wait::until;

/// The way that the manual shows: each URL is given to all clients before the next step.
fn goes_in_good_order(change: &Change) {
    let notes = Notes::default();
    let old = [Worker::start(1, change.old(), &notes), Worker::start(2, change.old(), &notes)];
    old.iter().for_each(|worker| worker.until_it_worked("a client of the old set"));
    let Progress::Prepared { url } = change.step(false) else { panic!("it begins with that") };
    assert_eq!(url, format!("redlock:{}", change.both()));
    let both = [Worker::start(3, change.both(), &notes), Worker::start(4, change.both(), &notes)];
    both.iter().chain(&old).for_each(|worker| worker.until_it_worked("everybody, side by side"));
    let Progress::OldClients { clients, .. } = change.step(false) else { panic!("they are not pushed out") };
    assert!(clients.len() >= 2, "{clients:?}");
    old.into_iter().for_each(Worker::end);
    let Progress::Closing { left } = change.step_after(has_old_clients, false) else { panic!("leases may last") };
    assert!(left <= TTL + Duration::from_secs(1), "{left:?}");
    let late = Worker::start(5, change.old(), &notes);
    let early = Worker::start(6, change.new_set(), &notes);
    both.iter().for_each(|worker| worker.until_it_worked("a client of both"));
    until("who comes late is told where to go", || late.last_refusal().contains("next="));
    assert_eq!(early.turns(), 0, "the new set does not vote yet");
    let Progress::Opened { url } = change.step_after(is_closing, false) else { panic!("the leases are over") };
    assert_eq!(url, format!("redlock:{}", change.new_set()));
    let new = Worker::start(7, change.new_set(), &notes);
    both.iter().chain([&new, &early]).for_each(|worker| worker.until_it_worked("everybody, side by side"));
    assert!(matches!(change.step(false), Progress::BothClients { .. }));
    both.into_iter().for_each(Worker::end);
    assert_eq!(change.step_after(has_both_clients, false), Progress::Done);
    assert_eq!(change.step(false), Progress::Done, "again, which changes nothing");
    new.until_it_worked("a client of the new set");
    assert_eq!(late.turns(), 0, "the old set votes no more");
    for rest in [change.old(), change.both()] {
        let error = match connect(&rest) {
            Err(error) => error.to_string(),
            Ok(locks) => locks.lock("y").ttl(TTL).acquire().block().expect_err("no majority").to_string(),
        };
        assert!(error.contains("reconfigure"), "{rest}: {error}");
    }
    [late, early, new].into_iter().for_each(Worker::end);
    notes.assert_lawful();
}

#[test]
fn three_servers_become_five_while_clients_work() {
    goes_in_good_order(&Change::new(start(5), &[0, 1, 2], &[0, 1, 2, 3, 4]));
}

#[test]
fn three_servers_are_replaced_by_three_others_while_clients_work() {
    goes_in_good_order(&Change::new(start(6), &[0, 1, 2], &[3, 4, 5]));
}

#[test]
fn a_dead_server_of_five_is_replaced_while_clients_work() {
    let mut change = Change::new(start(6), &[0, 1, 2, 3, 4], &[0, 1, 2, 3, 5]);
    change.servers[4].kill();
    change.gone = vec![4];
    goes_in_good_order(&change);
}

/// Nobody waits for anybody: clients of all three URLs work all the time, and are thrown out in the middle of a hold.
#[test]
fn clients_that_are_thrown_out_never_hold_beside_those_that_are_let_in() {
    let change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    let notes = Notes::default();
    let rests = [change.old(), change.both(), change.new_set()];
    assert_eq!(change.step(true), Progress::Prepared { url: format!("redlock:{}", change.both()) });
    let workers: Vec<Worker> =
        (0..6).map(|number| Worker::start(number, rests[number as usize % 3].clone(), &notes)).collect();
    workers[0].until_it_worked("a client of the old set");
    assert!(is_closing(&change.step(true)), "the leases of those who were thrown out");
    assert!(matches!(change.step_after(is_closing, true), Progress::Opened { .. }));
    workers[2].until_it_worked("a client of the new set");
    workers[1].until_it_worked("a client of both sets");
    let of_old = workers[0].turns() + workers[3].turns();
    assert_eq!(change.step(true), Progress::Done);
    workers[5].until_it_worked("a client of the new set");
    assert_eq!(workers[0].turns() + workers[3].turns(), of_old, "the old set votes no more");
    workers.into_iter().for_each(Worker::end);
    notes.assert_lawful();
}

/// A lease outlives the step that closes its set; a lock that needs no token is not granted by a script that could refuse.
#[test]
fn the_last_leases_of_the_old_set_are_over_before_the_new_set_votes() {
    let change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    let old = connect(&change.old()).expect("they vote");
    assert!(matches!(change.step(true), Progress::Prepared { .. }));
    let fenced = old.lock("fenced").ttl(TTL).acquire().block().expect("free");
    let plain = old.lock("plain").unfenced().ttl(TTL).acquire().block().expect("free");
    assert!(is_closing(&change.step(true)));
    assert!(matches!(change.step_after(is_closing, true), Progress::Opened { .. }));
    assert!(!fenced.is_held() && !plain.is_held(), "renewals were refused");
    let new = connect(&change.new_set()).expect("they vote");
    let next = new.lock("fenced").ttl(TTL).acquire().block().expect("free");
    assert!(next.token() > fenced.token());
    assert!(new.lock("plain").unfenced().ttl(TTL).acquire().block().is_ok(), "it is free");
    assert!(old.lock("plain").unfenced().ttl(TTL).acquire().block().is_err(), "its connections were ended");
}

#[test]
fn servers_of_every_version_can_be_left_and_entered() {
    let editions =
        [Edition::System, Edition::Redis6, Edition::Redis8, Edition::Valkey8, Edition::Valkey9, Edition::Redis6];
    let servers = editions.map(|edition| Redis::new().edition(edition).start());
    let change = Change::new(servers.into(), &[0, 1, 2], &[3, 4, 5]);
    let old = connect(&change.old()).expect("they vote");
    let before = old.lock("x").ttl(TTL).acquire().block().expect("free");
    assert!(matches!(change.step(true), Progress::Prepared { .. }));
    let both = connect(&change.both()).expect("they vote");
    assert!(both.lock("x").ttl(TTL).try_acquire().block().is_ok_and(|guard| guard.is_none()), "it is held");
    assert_eq!(change.step_after(|progress| *progress != Progress::Done, true), Progress::Done);
    let after = connect(&change.new_set()).expect("they vote").lock("x").ttl(TTL).acquire().block().expect("free");
    assert!(after.token() > before.token() && !before.is_held());
}

/// The clocks of the old servers are an hour ahead: what they granted is far above what the new ones would accept.
#[test]
fn tokens_go_on_rising_on_servers_whose_clocks_are_behind() {
    let clocks = Clocks::new();
    clocks.wall_ahead(Duration::from_secs(3600));
    let ahead = (0..3).map(|_| Redis::new().preloaded(clocks.environment()).start());
    let change = Change::new(ahead.chain(start(3)).collect(), &[0, 1, 2], &[3, 4, 5]);
    let old = connect(&change.old()).expect("they vote");
    let take = |locks: &fencepost_core::Locks, name: &str| {
        let guard = locks.lock(name).ttl(TTL).acquire().block().expect("free");
        let token = guard.token();
        guard.release().block().expect("released");
        token
    };
    let before: Vec<_> = (0..3).map(|number| take(&old, &format!("x{number}"))).collect();
    assert!(matches!(change.step(true), Progress::Prepared { .. }));
    change.step_after(|progress| !matches!(progress, Progress::Opened { .. }), true);
    let new = connect(&change.new_set()).expect("they vote");
    let after: Vec<_> = (0..3).map(|number| take(&new, &format!("x{number}"))).collect();
    assert!(before.iter().zip(&after).all(|(before, after)| before < after), "{before:?} {after:?}");
    let fresh = take(&new, "never used before");
    assert!(fresh < before[0], "the control: without what the old servers knew, tokens would fall");
}

#[test]
fn in_another_process() {
    let Some((what, place)) = role() else { return };
    assert_eq!(what, "reconfigure");
    let (old, new) = place.split_once(' ').expect("two URLs");
    say("go");
    while fencepost_redis::reconfigure(("redlock", old), ("redlock", new), &crew::by_force())
        .is_ok_and(|report| report.progress != Progress::Done)
    {}
    say("end");
}
