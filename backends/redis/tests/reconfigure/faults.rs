//! What goes wrong on the way: the command is killed, servers are down or forget, somebody changes their mind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_core::Blocking;
use fencepost_core::store::StoreErrorKind;
use fencepost_redis::Progress;
use fencepost_testkit::dice::Dice;
use fencepost_testkit::process::Other;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::wait::until;

use crate::crew::{Change, Notes, TTL, Worker, by_force, connect, is_closing, start};

/// A node that forgot keeps still for the window of its clock and a second.
const PROBATION: Duration = Duration::from_secs(11);

/// At whatever point it is killed, the next run goes on; and nobody notices but those whose set is closed.
#[test]
fn a_command_that_is_killed_again_and_again_gets_there() {
    let change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    let notes = Notes::default();
    let rests = [change.old(), change.both(), change.new_set()];
    let workers: Vec<Worker> =
        (0..3).map(|number| Worker::start(number, rests[number as usize].clone(), &notes)).collect();
    workers[0].until_it_worked("a client of the old set");
    let place = format!("{} {}", change.old(), change.new_set());
    let mut dice = Dice::new(7);
    let is_done = || change.servers[3].word(&["GET", "fp:marker"]).is_some_and(|marker| marker.contains(";-"));
    let mut kills = 0;
    until("it was opened by commands that were killed", || {
        let mut other = Other::start("reconfigure", &place);
        other.says("go");
        // Somewhere in a run, which takes some milliseconds, and longer on a busy machine.
        std::thread::sleep(Duration::from_micros(dice.below(12_000 + 2_000 * kills)));
        other.kill();
        kills += 1;
        is_done()
    });
    assert!(kills > 3, "{kills}");
    until("it ends", || change.step(true) == Progress::Done);
    workers[2].until_it_worked("a client of the new set");
    let of_old = workers[0].turns();
    workers[2].until_it_worked("a client of the new set");
    assert_eq!(workers[0].turns(), of_old);
    workers.into_iter().for_each(Worker::end);
    notes.assert_lawful();
}

/// One goes forth and one goes back, at the same time and again and again: the old and the new set never vote side by side.
#[test]
fn two_who_pull_in_different_directions_never_open_both_sets() {
    let change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    let notes = Notes::default();
    let (old, new) = (change.old(), change.new_set());
    let workers: Vec<Worker> =
        (0..4).map(|number| Worker::start(number, [&old, &new][number as usize % 2].clone(), &notes)).collect();
    workers[0].until_it_worked("a client of the old set");
    let pull = |from: &str, to: &str, opened: &AtomicUsize, enough: &dyn Fn() -> bool| {
        while !enough() {
            let pulled = fencepost_redis::reconfigure(("redlock", from), ("redlock", to), &by_force());
            if pulled.is_ok_and(|report| matches!(report.progress, Progress::Opened { .. })) {
                opened.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let opened = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let started = Instant::now();
    let enough = || {
        let count = |at: usize| opened[at].load(Ordering::SeqCst);
        started.elapsed() > Duration::from_secs(60) || count(0) + count(1) >= 6
    };
    std::thread::scope(|scope| {
        scope.spawn(|| pull(&old, &new, &opened[0], &enough));
        scope.spawn(|| pull(&new, &old, &opened[1], &enough));
    });
    assert!(opened.iter().any(|count| count.load(Ordering::SeqCst) > 0), "{opened:?}");
    until("it ends", || change.try_step(true).is_ok_and(|report| report.progress == Progress::Done));
    workers[1].until_it_worked("a client of the new set");
    workers.into_iter().for_each(Worker::end);
    notes.assert_lawful();
}

#[test]
fn a_new_server_that_is_down_stops_it_before_anything_is_changed_and_is_named() {
    let mut change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    change.servers[4].kill();
    let error = change.try_step(false).expect_err("it is down");
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert!(error.message.starts_with(&change.servers[4].address()), "{error}");
    let others = [0, 1, 2, 3, 5].map(|number| change.servers[number].keys().len());
    assert_eq!(others, [2, 2, 2, 0, 0], "marker and sign of the old set");
    change.servers[4].restart();
    assert!(matches!(change.step(false), Progress::Prepared { .. }));
    // And later on: clients of both go on with a majority of each.
    assert!(is_closing(&change.step(true)));
    change.servers[5].pause();
    let both = connect(&change.both()).expect("two of three and three of three");
    until("a majority of each", || both.lock("x").ttl(TTL).wait_at_most(TTL).acquire().block().is_ok());
    until("the leases are over", || change.try_step(true).is_err());
    change.servers[5].resume();
    change.step_after(|progress| *progress != Progress::Done, true);
}

#[test]
fn too_few_old_servers_stop_it_and_it_says_so() {
    let mut change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    change.servers[0].kill();
    change.servers[1].kill();
    let error = change.try_step(true).expect_err("one of three");
    assert!(error.kind == StoreErrorKind::Unreachable && error.message.contains("no majority"), "{error}");
}

/// Three of five have left the old set, which is enough for now. But one that has not could let back in who forgets later.
#[test]
fn an_old_server_that_was_not_told_is_waited_for_or_said_to_be_gone() {
    let mut change = Change::new(start(6), &[0, 1, 2, 3, 4], &[0, 1, 2, 3, 5]);
    change.servers[4].pause();
    assert!(matches!(change.step(true), Progress::Prepared { .. }));
    let error = change.try_step(true).expect_err("it was not told");
    let label = change.servers[4].address();
    assert!(error.message.starts_with(&label) && error.message.contains(&format!("--gone {label}")), "{error}");
    let both = connect(&change.both()).expect("four of five, twice");
    until("they go on", || both.lock("x").ttl(TTL).wait_at_most(TTL).acquire().block().is_ok());
    change.gone = vec![4];
    assert!(matches!(change.step_after(is_closing, true), Progress::Opened { .. }));
    // It was not gone: it is told as soon as it is there.
    change.servers[4].resume();
    assert_eq!(change.step_after(|progress| *progress != Progress::Done, true), Progress::Done);
    let marker = change.servers[4].word(&["GET", "fp:marker"]).expect("it knows");
    assert!(marker.starts_with('>'), "{marker}");
}

/// It was said to be gone, and comes back with data that may be old: it keeps still, and is told all the same.
#[test]
fn an_old_server_that_comes_back_with_its_data_is_told_while_it_keeps_still() {
    let mut servers = start(5);
    servers.insert(4, Redis::new().with("--appendonly yes").start());
    let mut change = Change::new(servers, &[0, 1, 2, 3, 4], &[0, 1, 2, 3, 5]);
    assert!(matches!(change.step(true), Progress::Prepared { .. }));
    change.servers[4].stop();
    change.gone = vec![4];
    change.step_after(|progress| !matches!(progress, Progress::Opened { .. }), true);
    change.servers[4].restart();
    assert_eq!(change.step_after(|progress| *progress != Progress::Done, true), Progress::Done);
    for again in [false, true] {
        let probation = change.servers[4].word(&["GET", "fp:probation"]).expect("it keeps still");
        let known = probation.splitn(3, '|').nth(2).expect("what it was told");
        assert!(known.starts_with('>') && known.contains(";-"), "again {again}: {probation}");
        assert_eq!(change.step(true), Progress::Done);
    }
    // Nor does an operator's word bring the set back there.
    let refused = fencepost_redis::init("redlock", &change.old()).block();
    assert!(refused.is_err(), "the set was left");
    assert_eq!(change.servers[4].word(&["GET", "fp:marker"]), None);
}

/// The table read from below: from every step the URLs changed over lead back.
#[test]
fn a_change_can_be_undone_from_every_step() {
    for steps in 1..4 {
        let change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
        let notes = Notes::default();
        let old = Worker::start(1, change.old(), &notes);
        old.until_it_worked("a client of the old set");
        for step in 0..steps {
            match step {
                2 => assert!(matches!(change.step_after(is_closing, true), Progress::Opened { .. })),
                _ => assert!(!matches!(change.step(true), Progress::Done)),
            }
        }
        let back = change.reversed();
        assert_eq!(back.step_after(|progress| *progress != Progress::Done, true), Progress::Done);
        old.until_it_worked("a client of the old set, again");
        let error = connect(&back.old()).and_then(|locks| {
            locks.lock("y").ttl(TTL).try_acquire().block().map_err(|error| match error {
                fencepost_core::AcquireError::Store(error) => error,
                other => panic!("{other}"),
            })
        });
        assert!(error.is_err(), "the new set votes no more: {steps}");
        old.end();
        notes.assert_lawful();
    }
}

/// Started anew with its data, a server renews for clients of the old set until its probation is over. Then clients of both
/// let it in, and it votes for them only: nobody closed the old set, but leases of it may still run.
#[test]
fn leases_are_waited_for_also_where_restarted_servers_left_the_old_set_by_themselves() {
    let servers = (0..6).map(|_| Redis::new().with("--appendonly yes").start()).collect();
    let mut change = Change::new(servers, &[0, 1, 2], &[3, 4, 5]);
    assert!(matches!(change.step(false), Progress::Prepared { .. }));
    for number in 0..3 {
        change.servers[number].stop();
        change.servers[number].restart();
    }
    let both = connect(&change.both()).expect("they answer, if only that they keep still");
    let marker = |number: usize| change.servers[number].word(&["GET", "fp:marker"]);
    until("clients of both let all of them in", || {
        let _asked = both.lock("x").ttl(TTL).try_acquire().block();
        (0..3).all(|number| marker(number).is_some_and(|marker| !marker.contains(";-")))
    });
    assert!(is_closing(&change.step(false)), "the new set must not vote yet");
    assert!(matches!(change.step_after(is_closing, false), Progress::Opened { .. }));
}

/// Servers that forget one after the other, each after the one before has got over it: nothing brings a closed set back.
#[test]
fn old_servers_that_forget_one_by_one_do_not_bring_the_old_set_back() {
    let mut change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    let notes = Notes::default();
    let late = Worker::start(1, change.old(), &notes);
    late.until_it_worked("a client of the old set");
    change.step_after(|progress| *progress != Progress::Done, true);
    let turns = late.turns();
    for number in [0, 1] {
        change.servers[number].restart();
        let since = || change.servers[number].word(&["GET", "fp:probation"])?.split('|').next()?.parse::<u64>().ok();
        until("it was asked by the late client, and its probation is over", || {
            since().is_some_and(|since| UNIX_EPOCH + Duration::from_millis(since) + PROBATION < SystemTime::now())
        });
        // It goes on asking, and is told each time.
        until("it was asked again", || late.last_refusal().contains("reconfigure"));
        assert_eq!(change.servers[number].word(&["GET", "fp:marker"]), None, "nobody vouched for the set");
    }
    assert_eq!(late.turns(), turns);
    late.end();
    // Who comes anew hears those that forgot first, now and then, and the one that knows better a moment later.
    for _ in 0..300 {
        let _refused = connect(&change.old());
        let markers = [0, 1].map(|number| change.servers[number].word(&["GET", "fp:marker"]));
        assert_eq!(markers, [None, None], "the third was up");
    }
}

/// A server of both sets that forgets in the middle keeps still, and is in the change again afterwards.
#[test]
fn a_server_that_forgets_in_the_middle_is_waited_for() {
    let mut change = Change::new(start(5), &[0, 1, 2], &[2, 3, 4]);
    assert!(matches!(change.step(false), Progress::Prepared { .. }));
    change.servers[3].restart();
    let error = change.try_step(true).expect_err("it may have forgotten");
    assert!(matches!(error.kind, StoreErrorKind::Quarantined { left } if left <= PROBATION + TTL), "{error:?}");
    assert!(error.message.starts_with(&change.servers[3].address()), "{error}");
    until("its probation is over", || change.try_step(true).is_ok());
    assert_eq!(change.step_after(|progress| *progress != Progress::Done, true), Progress::Done);
    let new = connect(&change.new_set()).expect("they vote");
    assert!(new.lock("x").ttl(TTL).acquire().block().is_ok(), "it is free");
}

/// It stopped where the old servers had left both sets, and the first of the new ones had not: two of the new ones forget then.
#[test]
fn new_servers_that_forget_while_it_ends_keep_still_before_they_vote() {
    let mut change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    change.step_after(|progress| !matches!(progress, Progress::Opened { .. }), true);
    assert_eq!(change.servers[3].ask(&["ACL", "SETUSER", "default", "-eval"]), "+OK");
    let error = change.try_step(true).expect_err("the last step ends at the first new server");
    assert_eq!(error.kind, StoreErrorKind::Denied, "{error}");
    let marker = |change: &Change, number: usize| change.servers[number].word(&["GET", "fp:marker"]);
    assert!((0..3).all(|number| marker(&change, number).is_some_and(|marker| marker.starts_with('>'))));
    change.servers[3].restart();
    change.servers[4].restart();
    let error = change.try_step(true).expect_err("they may have forgotten");
    assert!(matches!(error.kind, StoreErrorKind::Quarantined { left } if left > Duration::ZERO), "{error:?}");
    assert_eq!([marker(&change, 3), marker(&change, 4)], [None, None], "they do not vote yet");
    until("their probation is over", || change.try_step(true).is_ok());
    assert_eq!(change.step_after(|progress| *progress != Progress::Done, true), Progress::Done);
    let new = connect(&change.new_set()).expect("they vote");
    assert!(new.lock("x").ttl(TTL).acquire().block().is_ok(), "it is free");
}

/// One server became three, and is started anew. By its old list it is alone and would vouch for itself; but clients of the three
/// ask for it, too.
#[test]
fn a_list_of_one_that_was_left_does_not_win_its_server_back() {
    let mut change = Change::new(start(3), &[0], &[0, 1, 2]);
    change.step_after(|progress| *progress != Progress::Done, true);
    change.servers[0].restart();
    let new = connect(&change.new_set()).expect("two of three vote");
    let notes = Notes::default();
    let late = Worker::start(1, change.old(), &notes);
    until("its probation is over", || late.turns() > 0 || late.last_refusal().contains("two lists of servers"));
    assert_eq!(late.turns(), 0, "nobody remembers its list");
    let marker = || change.servers[0].word(&["GET", "fp:marker"]);
    until("clients of the three let it in", || {
        let _asked = new.lock("x").ttl(TTL).try_acquire().block();
        marker().is_some()
    });
    assert!(marker().is_some_and(|marker| marker.contains(&change.servers[1].address())));
    until("the late one is told", || late.last_refusal().contains("belongs to the cluster"));
    assert_eq!(late.turns(), 0);
    late.end();
}

/// Two forgot everything; the third keeps still, but was told that the set is left.
#[test]
fn what_a_server_was_told_while_it_keeps_still_counts() {
    let mut servers = start(6);
    servers[2] = Redis::new().with("--appendonly yes").start();
    let mut change = Change::new(servers, &[0, 1, 2], &[3, 4, 5]);
    assert!(matches!(change.step(true), Progress::Prepared { .. }));
    change.servers[2].stop();
    change.gone = vec![2];
    change.step_after(|progress| !matches!(progress, Progress::Opened { .. }), true);
    change.servers[2].restart();
    assert_eq!(change.step_after(|progress| *progress != Progress::Done, true), Progress::Done);
    change.servers[0].restart();
    change.servers[1].restart();
    until("their probation is over", || {
        let refusal = connect(&change.old()).map(|locks| locks.lock("x").ttl(TTL).try_acquire().block());
        let markers = [0, 1, 2].map(|number| change.servers[number].word(&["GET", "fp:marker"]));
        assert_eq!(markers, [None, None, None], "the third knows better");
        refusal.is_ok_and(|asked| asked.is_err_and(|error| error.to_string().contains("is let in again once")))
    });
}

/// Else a change that was decided on before, and comes late, would be made.
#[test]
fn a_server_that_is_trusted_anew_has_another_marker() {
    let change = Change::new(start(1), &[0], &[0]);
    let marker = || change.servers[0].word(&["GET", "fp:marker"]).expect("it was marked");
    let before = marker();
    assert_eq!(change.servers[0].ask(&["FLUSHALL"]), "+OK");
    fencepost_redis::init("redlock", &change.old()).block().expect("it is there");
    assert_ne!(marker(), before);
}
