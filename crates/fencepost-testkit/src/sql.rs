//! What goes wrong with databases, one named test each, the same for every SQL back end: [`sql_faults!`](crate::sql_faults).

use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use fencepost_core::doctor::Report;
use fencepost_core::{
    AcquireError, Blocking, Connect, EventKind, FencingToken, Locks, ReleaseOutcome, StoreErrorKind, VirtualClock,
};

use crate::contract::{Subject, wait_for};
use crate::findings::bad;
use crate::process::{self, Other};
use crate::proxy::{Flow, Proxy};
use crate::wait::until;

const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);
const DAY_US: u64 = 86_400_000_000;

/// A connection of the test's own, behind our back.
pub trait Session: Send {
    /// Runs a statement.
    fn run(&self, statement: &str);
    /// The first column of its first row.
    fn number(&self, statement: &str) -> i64;
}

/// Tables for locks, on a server.
pub trait SqlPlace: Subject + Sized + Sync {
    /// How the dialect says no.
    const NO: &'static str;
    /// On the server that all tests share.
    fn new() -> Self;
    /// On a server of its own.
    fn alone() -> Self;
    /// On the same server, under this prefix; the tables are made.
    fn named(&self, tables: &str) -> Self;
    /// The same tables, made or brought up to date by one more program.
    fn renewed(&self) -> Self;
    /// `HOST:PORT` of the server.
    fn address(&self) -> String;
    /// Through another address, with more settings (`&pool=1`).
    fn connect_with(&self, address: &str, settings: &str) -> Connect;
    /// The whole URL, for another process.
    fn url(&self) -> String;
    /// Connects to such a URL.
    fn connect_url(url: &str) -> Connect;
    /// A connection of the test's own.
    fn session(&self) -> Box<dyn Session>;
    /// The table with this ending, quoted.
    fn table(&self, ending: &str) -> String;
    /// A lock's name as a literal.
    fn literal(name: &str) -> String;
    /// Ends every connection to the server but that of this session.
    fn end_sessions(&self, but: &dyn Session);
    /// Kills the server and starts it again.
    fn restart(&mut self);
    /// Makes this session the one that survives a deadlock, where a table `victims` is there to be written to.
    fn favour(&self, session: &dyn Session);
}

/// An examination found nothing, told what there is to tell, and left nothing behind.
///
/// # Panics
/// If not.
pub fn assert_good<P: SqlPlace>(place: &P, report: &Report) {
    assert_eq!(bad(report), [""; 0], "{report:#?}");
    for what in ["round trip", "clock", "version", "isolation"] {
        assert!(report.facts.iter().any(|fact| fact.what == what), "{what} is not told: {report:?}");
    }
    let held = format!("SELECT count(*) FROM {} WHERE owner IS NOT NULL", place.table("locks"));
    assert_eq!(place.session().number(&held), 0, "a lock was left behind");
}

/// Kills the server: nothing that was granted is forgotten.
pub fn a_server_that_was_killed_and_restarted_keeps_holds_and_tokens<P: SqlPlace>() {
    let mut place = P::alone();
    let (locks, other) = (place.locks("one"), place.locks("other"));
    let guard = locks.lock("x").ttl(Duration::from_secs(60)).acquire().block().expect("free");
    let token = guard.token();
    place.restart();
    guard.renew().block().expect("still mine");
    assert!(other.lock("x").try_acquire().block().expect("an answer").is_none());
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
    let next = other.lock("x").acquire().block().expect("free");
    assert!(next.token() > token);
}

/// `pg_terminate_backend`, `KILL`.
pub fn killed_connections_are_opened_anew_and_the_hold_goes_on<P: SqlPlace>() {
    let place = P::alone();
    let (locks, other) = (place.locks("one"), place.locks("other"));
    let guard = locks.lock("x").ttl(Duration::from_secs(60)).acquire().block().expect("free");
    let mut events = other.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.lock("x").wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let session = place.session();
        for _ in 0..3 {
            place.end_sessions(&*session);
            guard.renew().block().expect("still mine");
        }
        place.end_sessions(&*session);
        assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
        assert!(waiter.join().expect("no panic").expect("its turn").is_held());
    });
}

/// With one connection, which somebody keeps busy.
pub fn a_pool_that_is_exhausted_is_waited_for_and_named<P: SqlPlace>() {
    let place = P::new();
    let connect = place.connect_with(&place.address(), "&pool=1").answer_within(Duration::from_secs(1));
    let locks = connect.block().expect("the server is up");
    until("its row is made", || locks.lock("x").try_acquire().block().is_ok());
    until("released", || locks.inspect("x").block().is_ok_and(|state| state.holders.is_empty()));
    let session = place.session();
    session.run("BEGIN");
    let lock = format!("SELECT 1 FROM {} WHERE name = {} FOR UPDATE", place.table("locks"), P::literal("x"));
    session.run(&lock);
    // On a slow machine one of the two is given up before both have met at the connection: then once more.
    until("the pool is named", || {
        std::thread::scope(|scope| {
            let stuck = scope.spawn(|| locks.lock("x").try_acquire().block());
            let message = loop {
                match locks.lock("y").try_acquire().block() {
                    // The other one had not taken the connection yet, or has given it back.
                    Ok(_) if stuck.is_finished() => break String::new(),
                    Ok(_) => {}
                    Err(AcquireError::Store(error)) => {
                        assert_eq!(error.kind, StoreErrorKind::TooSlow);
                        break error.message;
                    }
                    Err(other) => panic!("{other:?}"),
                }
            };
            assert!(stuck.join().expect("no panic").is_err(), "the row is locked");
            message.contains("all 1 connections")
        })
    });
    session.run("ROLLBACK");
    until("it works again", || locks.lock("y").try_acquire().block().is_ok());
}

/// A day ahead, a day behind: tokens and leases follow the database's clock alone.
pub fn a_clients_clock_that_is_a_day_off_does_not_matter<P: SqlPlace>() {
    let place = P::new();
    let clocks = [SystemTime::now() - DAY, SystemTime::now(), SystemTime::now() + DAY].map(|wall| {
        let time = VirtualClock::new();
        time.set_wall(wall);
        time
    });
    let clients: Vec<Locks> =
        clocks.iter().map(|time| place.connect().clock(time).block().expect("the server is up")).collect();
    let mut last: Option<FencingToken> = None;
    for round in 0..9 {
        let (locks, other) = (&clients[round % 3], &clients[(round + 1) % 3]);
        let guard = locks.lock("x").acquire().block().expect("free");
        assert!(Some(guard.token()) > last, "{:?} after {last:?}", guard.token());
        assert!(guard.token() < FencingToken::at(SystemTime::now() + Duration::from_secs(60)), "not by its own clock");
        assert!(guard.token() > FencingToken::at(SystemTime::now() - Duration::from_secs(60)), "not by its own clock");
        assert!(other.lock("x").try_acquire().block().expect("an answer").is_none());
        last = Some(guard.token());
        guard.release().block().expect("released");
    }
}

/// Fifty processes' worth of connections in one line, or two hundred if `FENCEPOST_LONG` is set: each is served once, in
/// the order in which they reached the database, whatever each takes for its clock.
pub fn waiters_are_served_each_once_and_in_order<P: SqlPlace>() {
    // A database that 200 wait at is asked 200 times in a second: on a slow machine some would lose their places.
    let count = if std::env::var_os("FENCEPOST_LONG").is_some() { 200 } else { 50 };
    let place = P::alone();
    let holding = place.locks("holding");
    let guard = holding.lock("x").ttl(Duration::from_secs(120)).acquire().block().expect("free");
    let connect = || place.connect_with(&place.address(), "&pool=1").answer_within(Duration::from_secs(30));
    let waiting: Vec<Locks> = (0..count).map(|_| connect().block().expect("the server is up")).collect();
    let (served, order) = mpsc::channel();
    std::thread::scope(|scope| {
        for (number, locks) in waiting.iter().enumerate() {
            let (mut events, served) = (locks.events(), served.clone());
            scope.spawn(move || {
                let lock = locks.lock("x").ttl(Duration::from_secs(60)).wait_forever();
                let guard = lock.acquire().block().expect("its turn");
                served.send(number).expect("the test listens");
                guard.release().block().expect("released");
            });
            wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        }
        until("all are in line", || holding.inspect("x").block().is_ok_and(|state| state.waiters.len() == count));
        guard.release().block().expect("released");
    });
    drop(served);
    let order: Vec<usize> = order.iter().collect();
    let mut each = order.clone();
    each.sort_unstable();
    assert_eq!(each, (0..count).collect::<Vec<_>>(), "each once");
    // A place is kept for three seconds after its owner was heard of: on a machine where so many threads get no turn for so
    // long, one may be passed over until it asks again.
    let overtook = |at: usize| order[at + 1..].iter().any(|later| *later < order[at]);
    let overtakers = (0..count).filter(|at| overtook(*at)).count();
    assert!(overtakers <= count / 20, "{overtakers} were served before one who came earlier: {order:?}");
}

/// The role of a process that holds a lock with a ttl of a second until it is told to end.
///
/// # Panics
/// If it does not get the lock.
pub fn hold_in_another_process<P: SqlPlace>() {
    let Some((role, url)) = process::role() else { return };
    assert_eq!(role, "holds");
    let locks = P::connect_url(&url).block().expect("the server is up");
    let guard = locks.lock("x").ttl(Duration::from_secs(1)).wait_forever().acquire().block().expect("my turn");
    process::say("holds");
    process::await_leave();
    drop(guard);
}

/// S-25: a client that was killed leaves a lease, and no session lock that outlives it.
pub fn the_lock_of_a_killed_client_is_free_within_its_ttl_and_a_second<P: SqlPlace>() {
    let place = P::new();
    let locks = place.locks("next");
    let mut holder = Other::start("holds", &place.url());
    holder.says("holds");
    let mut events = locks.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = locks.lock("x").wait_forever().acquire().block().expect("its turn");
            (Instant::now(), guard)
        });
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        holder.kill();
        let killed_at = Instant::now();
        let (granted_at, _guard) = waiter.join().expect("no panic");
        let took = granted_at - killed_at;
        // Its ttl and a second, and what a busy machine takes.
        assert!(took <= Duration::from_secs(10), "free only after {took:?}");
    });
}

/// It keeps its row locked, and the server lets go of it.
pub fn a_client_that_is_cut_off_in_the_middle_of_a_step_delays_others_for_seconds_only<P: SqlPlace>() {
    let place = P::new();
    let proxy = Proxy::before(place.address());
    let (cut_off, other) = (place.connect_with(&proxy.address(), ""), place.locks("other"));
    let cut_off = cut_off.label("cut off").block().expect("the server is up");
    // A renewal is a step of two round trips: the row is locked after the first.
    let lock = cut_off.lock("x").ttl(Duration::from_secs(3)).manual_renewal();
    let guard_of_cut_off = lock.acquire().block().expect("free");
    proxy.replies(Flow::Held);
    proxy.take_forwarded();
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| guard_of_cut_off.renew().block());
        until("its step is under way", || !proxy.take_forwarded().is_empty());
        let guard = other.lock("x").wait_at_most(Duration::from_secs(20)).acquire().block().expect("free in the end");
        assert!(guard.is_held());
        guard.release().block().expect("released");
        proxy.close();
        let _ = stuck.join().expect("no panic");
    });
}

/// The server chooses our step as the victim; nobody hears of it.
pub fn a_deadlock_in_the_database_is_tried_again_inside_the_step<P: SqlPlace>() {
    let place = P::alone();
    let locks = place.connect().answer_within(Duration::from_secs(30)).block().expect("the server is up");
    // Two readers, because a single grant is kept in the row of the lock.
    let read =
        || locks.lock("x").shared().ttl(Duration::from_secs(120)).manual_renewal().acquire().block().expect("free");
    let (guard, _other) = (read(), read());
    let session = place.session();
    place.favour(&*session);
    let row = |table: &str| format!("SELECT 1 FROM {} WHERE name = {} FOR UPDATE", place.table(table), P::literal("x"));
    session.run(&row("holders"));
    std::thread::scope(|scope| {
        let renewal = scope.spawn(|| guard.renew().block());
        // Our step has the row of the lock now, and waits for that of the grant.
        let skip = format!("{} SKIP LOCKED", row("locks"));
        let free = format!("SELECT count(*) FROM ({skip}) AS free");
        let watching = place.session();
        until("the step has begun", || watching.number(&free.replace("SELECT 1", "SELECT name")) == 0);
        session.run(&row("locks"));
        session.run("COMMIT");
        renewal.join().expect("no panic").expect("tried again");
    });
    assert!(guard.is_held());
}

/// Names are data.
pub fn hostile_lock_names_are_stored_and_never_executed<P: SqlPlace>() {
    let place = P::new();
    let (locks, session) = (place.locks("one"), place.session());
    let tables = format!("SELECT count(*) FROM {}", place.table("locks"));
    let drop_it = format!("x'; DROP TABLE {}; --", place.table("locks"));
    let long = "ß".repeat(127) + "x";
    let names =
        ["'", "\"", "`", "\\", "\\'", "';", "%s", "$1", "?", ":name", "{locks}", "ünï 🔥", "x ", "x", &drop_it, &long];
    let guards: Vec<_> = names
        .iter()
        .map(|name| locks.lock(*name).acquire().block().unwrap_or_else(|error| panic!("{name:?}: {error}")))
        .collect();
    assert_eq!(session.number(&tables), i64::try_from(names.len()).expect("a few"));
    for name in names {
        assert_eq!(locks.inspect(name).block().expect("an answer").holders.len(), 1, "{name:?}");
    }
    drop(guards);
    let too_long = locks.lock("x".repeat(256)).acquire().block().expect_err("too long").to_string();
    assert!(too_long.contains("255"), "{too_long}");
}

/// Names of tables are quoted, or refused.
pub fn hostile_table_names_are_quoted_or_refused<P: SqlPlace>() {
    let place = P::alone();
    let session = place.session();
    session.run("CREATE TABLE treasure (x INT)");
    for tables in [
        "a\"b",
        "a`b",
        "a'b",
        "x; DROP TABLE treasure; --",
        "x\"; DROP TABLE treasure; --",
        "ünï",
        "a b",
        &"x".repeat(50),
    ] {
        let odd = place.named(tables);
        let guard = odd.locks("one").lock("x").acquire().block().expect("free");
        assert!(guard.is_held(), "{tables:?}");
    }
    assert_eq!(session.number("SELECT count(*) FROM treasure"), 0);
    for tables in ["", &"x".repeat(51), "%00", "%0A"] {
        let refused = place.connect_with(&place.address(), &format!("&tables={tables}")).block().expect_err("refused");
        assert_eq!(refused.kind, StoreErrorKind::Misconfigured, "{tables:?}");
    }
}

fn next_token(locks: &Locks) -> FencingToken {
    let guard = locks.lock("x").acquire().block().expect("free");
    let token = guard.token();
    guard.release().block().expect("released");
    token
}

/// Connecting prunes, if nobody did for an hour.
pub fn pruning_forgets_old_rows_and_never_lowers_the_next_token<P: SqlPlace>() {
    let place = P::new();
    let (locks, session) = (place.locks("one"), place.session());
    // Two readers of one lock have rows of their own; a single grant is kept in the row of its lock.
    let brief = |name: &str| locks.lock(name).shared().ttl(Duration::from_secs(5)).acquire().block();
    let leaked = ["gone", "gone", "alone"].map(|name| brief(name).expect("free").leak());
    let before = next_token(&locks);
    let age = |us: u64| {
        session.run(&format!("UPDATE {} SET pruned_us = 0", place.table("meta")));
        let aged = format!("used_us = used_us - {us}, until_us = until_us - {us}");
        session.run(&format!("UPDATE {} SET {aged}", place.table("locks")));
        session.run(&format!("UPDATE {} SET until_us = until_us - {us}", place.table("holders")));
        drop(place.locks("pruning"));
    };
    let count = |table: &str| session.number(&format!("SELECT count(*) FROM {}", place.table(table)));
    age(DAY_US - 3_600_000_000);
    assert_eq!(locks.inspect("x").block().expect("an answer").last_token, Some(before), "not yet");
    assert_eq!(count("holders"), 0, "the leases that were over");
    assert_eq!(count("locks"), 3, "not yet");
    // A day later the clock mints a higher token by far.
    let two_minutes =
        FencingToken::at(SystemTime::now()).as_i64() - FencingToken::at(SystemTime::now() - 2 * MINUTE).as_i64();
    session.run(&format!("UPDATE {} SET newest_token = newest_token - {two_minutes}", place.table("locks")));
    age(2 * 3_600_000_000);
    assert_eq!(count("locks"), 0, "forgotten");
    let after = next_token(&locks);
    assert!(after > before);
    // A token ahead of the clock, as after the clock was set back, is never forgotten.
    let ahead = FencingToken::at(SystemTime::now() + 10 * DAY);
    session.run(&format!("UPDATE {} SET newest_token = {ahead}", place.table("locks")));
    age(3 * DAY_US);
    assert_eq!(next_token(&locks), ahead.next());
    drop(leaked);
}

/// Several programs start at once.
pub fn tables_are_made_once_by_whoever_comes_first<P: SqlPlace>() {
    let place = P::alone();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| drop(place.named("together").locks("one")))).collect();
        all.into_iter().for_each(|one| one.join().expect("made, or there already"));
    });
}

/// With the cure.
pub fn missing_and_newer_tables_are_refused<P: SqlPlace>() {
    let place = P::new();
    let missing = place.connect_with(&place.address(), "&tables=nowhere").block().expect_err("no tables");
    assert_eq!(missing.kind, StoreErrorKind::Misconfigured);
    assert!(missing.message.contains("fencepost init"), "{}", missing.message);
    place.session().run(&format!("UPDATE {} SET version = 99", place.table("meta")));
    let newer = place.connect().block().expect_err("newer tables");
    assert_eq!(newer.kind, StoreErrorKind::Misconfigured);
    assert!(newer.message.contains("99"), "{}", newer.message);
}

/// Runs all of this on a back end: `sql_faults!(Place)`.
#[macro_export]
macro_rules! sql_faults {
    ($place:ty) => {
        /// Not a test of its own: what the other processes run.
        #[test]
        fn in_another_process() {
            $crate::sql::hold_in_another_process::<$place>();
        }
        $crate::sql_faults! { @each $place,
            a_server_that_was_killed_and_restarted_keeps_holds_and_tokens;
            killed_connections_are_opened_anew_and_the_hold_goes_on;
            a_pool_that_is_exhausted_is_waited_for_and_named;
            a_clients_clock_that_is_a_day_off_does_not_matter;
            waiters_are_served_each_once_and_in_order;
            the_lock_of_a_killed_client_is_free_within_its_ttl_and_a_second;
            a_client_that_is_cut_off_in_the_middle_of_a_step_delays_others_for_seconds_only;
            a_deadlock_in_the_database_is_tried_again_inside_the_step;
            hostile_lock_names_are_stored_and_never_executed;
            hostile_table_names_are_quoted_or_refused;
            pruning_forgets_old_rows_and_never_lowers_the_next_token;
            tables_are_made_once_by_whoever_comes_first;
            missing_and_newer_tables_are_refused;
        }
        $crate::sql_faults! { @each_race $place,
            takings_and_releases_of_one_statement_pass_nobody_by;
            a_taking_that_was_given_up_leaves_nothing_behind;
        }
        #[test]
        fn tables_of_version_1_are_brought_up_to_date() {
            $crate::sql_races::tables_of_version_1_are_brought_up_to_date::<$place>(include_str!("version_1.sql"));
        }
    };
    (@each_race $place:ty, $($race:ident;)*) => {
        $(
            #[test]
            fn $race() {
                $crate::sql_races::$race::<$place>();
            }
        )*
    };
    (@each $place:ty, $($fault:ident;)*) => {
        $(
            #[test]
            fn $fault() {
                $crate::sql::$fault::<$place>();
            }
        )*
    };
}
