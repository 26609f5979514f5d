//! Many connections at one lock of a database: takings and releases of one statement against those that look at the line.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fencepost_core::{Blocking, FencingToken, Guard, Locks, ReleaseOutcome};

use crate::dice::Dice;
use crate::poll;
use crate::sql::{Session, SqlPlace};
use crate::wait::until;

const CLIENTS: u64 = 6;
const ROUNDS: u64 = 60;

/// What all clients see of the lock, by their own counting.
#[derive(Default)]
struct Room {
    writers: AtomicU32,
    readers: AtomicU32,
    newest: Mutex<Option<FencingToken>>,
}

impl Room {
    fn enter_to_write(&self, token: FencingToken) {
        assert_eq!(self.writers.fetch_add(1, Ordering::SeqCst), 0, "two writers");
        assert_eq!(self.readers.load(Ordering::SeqCst), 0, "a writer beside readers");
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).replace(token);
        assert!(newest < Some(token), "{token} after {newest:?}");
    }

    fn leave_as_writer(&self) {
        self.writers.fetch_sub(1, Ordering::SeqCst);
    }

    fn enter_to_read(&self) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "a reader beside a writer");
    }

    fn leave_as_reader(&self) {
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

fn end(guard: Guard, politely: bool) {
    match politely {
        true => assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed),
        false => drop(guard),
    }
}

fn client(room: &Room, locks: &Locks, seed: u64) {
    let mut dice = Dice::new(seed);
    for _ in 0..ROUNDS {
        let lock = locks.lock("x").ttl(Duration::from_secs(60));
        let politely = dice.per_mille(800);
        match dice.below(8) {
            // One that gives up on the way, whether it was in line by then or not.
            0 => drop(poll::once(pin!(lock.wait_forever().acquire().into_future()))),
            1 | 2 => {
                if let Some(guard) = lock.try_acquire().block().expect("an answer") {
                    room.enter_to_write(guard.token());
                    room.leave_as_writer();
                    end(guard, politely);
                }
            }
            3 => {
                let guard = lock.shared().wait_forever().acquire().block().expect("its turn");
                room.enter_to_read();
                room.leave_as_reader();
                guard.release().block().expect("an answer");
            }
            _ => {
                let guard = lock.wait_forever().acquire().block().expect("its turn");
                room.enter_to_write(guard.token());
                room.leave_as_writer();
                end(guard, politely);
            }
        }
    }
}

/// What must never be seen of the tables, at any moment: each is one statement, which sees one moment.
fn never<P: SqlPlace>(place: &P) -> [(String, &'static str); 3] {
    let (locks, holders, waiters) = (place.table("locks"), place.table("holders"), place.table("waiters"));
    let idle = format!("(SELECT name FROM {locks} WHERE busy = {})", P::NO);
    [
        (format!("SELECT count(*) FROM {waiters} WHERE name IN {idle}"), "somebody waits, and the row does not say so"),
        (
            format!("SELECT count(*) FROM {holders} WHERE name IN {idle}"),
            "several hold it, and the row does not say so",
        ),
        (
            format!("SELECT count(*) FROM {holders} WHERE name IN (SELECT name FROM {locks} WHERE owner IS NOT NULL)"),
            "a grant in the row, and others beside it",
        ),
    ]
}

/// Two writers at once, tokens that fall, and marks that lie are looked for while all of them race.
///
/// # Panics
/// If one is found, or something stays behind.
pub fn takings_and_releases_of_one_statement_pass_nobody_by<P: SqlPlace>() {
    let place = P::alone();
    let room = Room::default();
    let clients: Vec<Locks> = (0..CLIENTS)
        .map(|_| place.connect_with(&place.address(), "").answer_within(Duration::from_secs(30)).block().expect("up"))
        .collect();
    let ended = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let all: Vec<_> = clients
            .iter()
            .zip(1..)
            .map(|(locks, seed)| {
                let room = &room;
                scope.spawn(move || client(room, locks, seed))
            })
            .collect();
        let looking = scope.spawn(|| look(&*place.session(), &never(&place), &ended));
        let done: Vec<_> = all.into_iter().map(|client| client.join()).collect();
        ended.store(true, Ordering::SeqCst);
        let looks = looking.join().expect("nothing that must not be");
        done.into_iter().for_each(|done| done.expect("no two writers, and tokens that rise"));
        looks
    });
    assert!(looks > 0, "nobody looked");
    let state = || clients[0].inspect("x").block().expect("an answer");
    until("all is given back", || state().holders.is_empty() && state().waiters.is_empty());
}

fn look(session: &dyn Session, never: &[(String, &'static str)], ended: &AtomicBool) -> u32 {
    let mut looks = 0;
    while !ended.load(Ordering::SeqCst) {
        for (statement, what) in never {
            assert_eq!(session.number(statement), 0, "{what}");
        }
        looks += 1;
    }
    looks
}

/// Row locks hold the statement up at the server; whoever sent it has given up, and what it did is undone.
///
/// # Panics
/// If the lock stays with somebody who has gone.
pub fn a_taking_that_was_given_up_leaves_nothing_behind<P: SqlPlace>() {
    let place = P::alone();
    let locks = place.connect().answer_within(Duration::from_millis(500)).block().expect("the server is up");
    let other = place.locks("other");
    // The row is there; whoever will be late has not seen it.
    drop(other.lock("x").acquire().block().expect("free").release().block());
    let session = place.session();
    let number = |what: &str| {
        place.session().number(&format!("SELECT {what} FROM {} WHERE name = {}", place.table("locks"), P::literal("x")))
    };
    session.run("BEGIN");
    session.run(&format!("SELECT 1 FROM {} WHERE name = {} FOR UPDATE", place.table("locks"), P::literal("x")));
    locks.lock("x").ttl(Duration::from_secs(600)).try_acquire().block().expect_err("the row is locked");
    session.run("ROLLBACK");
    let freed = || other.inspect("x").block().expect("an answer").holders.is_empty();
    until("whoever gave up has said so in the row, and cleaned up", || number("late_until_us") > 0 && freed());
    // Neither is anybody kept out, nor does the one that was given up come back.
    let guard = other.lock("x").wait_at_most(Duration::from_secs(30)).acquire().block().expect("free");
    assert_eq!(other.inspect("x").block().expect("an answer").holders.len(), 1);
    guard.release().block().expect("released");
    until("it is free", freed);
}

/// Old tables, with a holder and one in line: nobody is overlooked, nothing falls, and programs of the old version stop.
///
/// # Panics
/// If not.
pub fn tables_of_version_1_are_brought_up_to_date<P: SqlPlace>(schema: &str) {
    const HOUR_US: u64 = 3_600_000_000;
    let place = P::alone();
    let session = place.session();
    let endings = ["meta", "locks", "holders", "waiters", "revoked"];
    let all = endings.iter().chain(&["records"]);
    all.for_each(|ending| session.run(&format!("DROP TABLE {}", place.table(ending))));
    let named = |text: String, ending: &&str| text.replace(&format!("{{{ending}}}"), &place.table(ending));
    let words = schema.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
    let old = endings.iter().fold(words, named);
    old.split(';').filter(|statement| !statement.trim().is_empty()).for_each(|statement| session.run(statement));
    let now = std::time::SystemTime::now();
    let now_us =
        u64::try_from(now.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_micros()).expect("a few");
    let token = FencingToken::at(now + Duration::from_secs(3600));
    let (owner, until_us) = ("0123456789abcdef0123456789abcdef01234567", now_us + HOUR_US);
    for name in ["held", "free"] {
        let values = format!("({}, {token}, {now_us})", P::literal(name));
        session.run(&format!("INSERT INTO {} (name, last_token, used_us) VALUES {values}", place.table("locks")));
    }
    session.run(&format!(
        "INSERT INTO {} (name, owner, token, shared, label, since_us, until_us, attempt) \
         VALUES ({}, '{owner}', {token}, {}, 'the old one', {now_us}, {until_us}, 1)",
        place.table("holders"),
        P::literal("held"),
        P::NO,
    ));
    let refused = place.connect().block().expect_err("old tables").message;
    assert!(refused.contains("version 1") && refused.contains("fencepost init"), "{refused}");
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| drop(place.renewed()))).collect();
        all.into_iter().for_each(|one| one.join().expect("brought up to date, or so already"));
    });
    let locks = place.locks("new");
    let next = locks.lock("free").acquire().block().expect("free").token();
    assert_eq!(next, token.next(), "tokens go on");
    let lock = locks.lock("held");
    assert!(lock.try_acquire().block().expect("an answer").is_none(), "overlooked");
    let state = locks.inspect("held").block().expect("an answer");
    assert_eq!((state.holders.len(), state.holders[0].label.as_str()), (1, "the old one"));
    // It lets go without having moved.
    session.run(&format!("UPDATE {} SET until_us = 1 WHERE label = 'the old one'", place.table("holders")));
    for after in 1..4 {
        let guard = lock.acquire().block().expect("over");
        assert_eq!(guard.token(), token.offset(after));
        guard.release().block().expect("released");
    }
    assert_eq!(session.number(&format!("SELECT count(*) FROM {}", place.table("holders"))), 0);
    let columns = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'last_token'";
    assert_eq!(session.number(columns), 0, "old programs would go on");
}
