//! Records beside locks: written by whoever has the newest token. A store that keeps none says so.

use std::time::Duration;

use fencepost_core::fence::FenceError;
use fencepost_core::{Blocking, FencingToken, Locks, Record, StoreErrorKind};

use super::{Subject, short_ttl};
use crate::wait;

const LONG: Duration = Duration::from_secs(3600);

/// A store that keeps none says so, and what to do.
pub(super) fn refuses(locks: &Locks, name: &str) {
    let refused = locks.records().read(name).block().expect_err("no records here");
    assert!(
        refused.kind == StoreErrorKind::Unsupported && refused.to_string().contains("keep_records_in"),
        "{refused}"
    );
}

/// Where records are kept: here, or else in memory, after the store has said that it keeps none.
pub(super) fn with_records(locks: Locks) -> Locks {
    if locks.guarantees().records {
        return locks;
    }
    refuses(&locks, "x");
    let memory = fencepost_core::store::connect(|at| Ok(vec![fencepost_core::store::Memory::new(at.clock)]));
    let locks = locks.keep_records_in(&memory.block().expect("memory"));
    assert!(locks.guarantees().records);
    locks
}

fn next_token(locks: &Locks) -> FencingToken {
    let guard = locks.lock("x").wait_forever().acquire().block().expect("free in the end");
    let token = guard.token();
    guard.release().block().expect("released");
    token
}

fn value(record: Option<Record>) -> Option<String> {
    record.map(|record| String::from_utf8(record.value).expect("text"))
}

fn assert_late(written: Result<(), FenceError>) {
    match written {
        Err(FenceError::Stale(_)) => {}
        other => panic!("{other:?}"),
    }
}

/// Whoever was overtaken changes nothing, from the moment at which its successor has sealed the record.
pub fn only_the_newest_token_writes(subject: &impl Subject) {
    let first = with_records(subject.locks("first"));
    let (old, records) = (next_token(&first), first.records());
    assert_eq!(records.read("x").block().expect("an answer"), None);
    records.put("x", old, *b"one", LONG).block().expect("nobody was here");
    records.put("x", old, *b"two", LONG).block().expect("the same token");
    let second = subject.locks("second");
    let second = if second.guarantees().records { second } else { second.keep_records_in(&first) };
    let (new, theirs) = (next_token(&second), second.records());
    let seen = theirs.read("x").block().expect("an answer").expect("there");
    assert_eq!((seen.token, &*seen.value), (old, &b"two"[..]));
    assert!(seen.left <= LONG && seen.left > LONG / 2, "{:?}", seen.left);
    records.put("x", old, *b"three", LONG).block().expect("nobody newer has been here yet");
    assert_eq!(value(theirs.seal("x", new).block().expect("the newest")).as_deref(), Some("three"));
    for stale in [records.put("x", old, *b"late", LONG).block().map(|()| None), records.seal("x", old).block()] {
        match stale {
            Err(FenceError::Stale(stale)) => assert_eq!((stale.token, stale.seen), (old, new)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(value(records.read("x").block().expect("an answer")).as_deref(), Some("three"));
    theirs.put("x", new, *b"four", LONG).block().expect("the newest");
    assert_eq!(value(records.read("x").block().expect("an answer")).as_deref(), Some("four"));
    assert_eq!(records.read("y").block().expect("an answer"), None, "of another name");
}

/// Nobody counts on it for longer than told; and a late writer is told also then.
pub fn a_record_is_forgotten_after_its_time_and_its_token_is_not(subject: &impl Subject) {
    let locks = with_records(subject.locks("me"));
    let (old, new, records) = (next_token(&locks), next_token(&locks), locks.records());
    records.put("x", new, *b"soon over", short_ttl(&locks)).block().expect("the newest");
    // A store that is away for a moment is asked again.
    wait::until("the record is forgotten", || records.read("x").block().is_ok_and(|found| found.is_none()));
    assert_eq!(records.seal("x", new).block().expect("the newest"), None);
    assert_late(records.put("x", old, *b"late", LONG).block());
    records.put("x", new, *b"again", LONG).block().expect("the newest");
    records.put("x", new, [], Duration::ZERO).block().expect("the newest");
    assert_eq!(records.read("x").block().expect("an answer"), None, "forgotten at once");
    assert_late(records.put("x", old, *b"late", LONG).block());
}

/// What is too large is refused, and what is there stays.
pub fn a_record_takes_any_bytes_and_has_a_limit(subject: &impl Subject) {
    let locks = with_records(subject.locks("me"));
    let (token, records) = (next_token(&locks), locks.records());
    let every_byte: Vec<u8> = (0..=255).collect();
    for bytes in [Vec::new(), every_byte.clone(), every_byte.repeat(2048)] {
        records.put("x", token, bytes.clone(), LONG).block().expect("stored");
        let found = records.read("x").block().expect("an answer").expect("there");
        assert!(found.value == bytes, "{} bytes became {}", bytes.len(), found.value.len());
    }
    let refused = records.put("x", token, every_byte.repeat(2049), LONG).block().expect_err("too large");
    assert!(refused.to_string().contains("at most 524288 bytes"), "{refused}");
    let refused = records.put("x", token, *b"for ever", Duration::MAX).block().expect_err("too long");
    assert!(refused.to_string().contains("keep"), "{refused}");
    assert_eq!(records.read("x").block().expect("an answer").expect("there").value.len(), 2048 * 256);
}
