//! Many readers or one writer.

use fencepost_core::{Blocking, EventKind};

use super::{Subject, long_ttl, wait_for};

/// Each reader with a token of its own.
pub fn readers_hold_together_and_keep_writers_out(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let ttl = long_ttl(&one);
    let first = one.lock("x").ttl(ttl).shared().acquire().block().expect("free");
    let second = other.lock("x").ttl(ttl).shared().acquire().block().expect("readers share");
    assert_ne!(first.token(), second.token());
    assert!(first.token().to_string().starts_with('r'));
    assert!(one.lock("x").try_acquire().block().expect("an answer").is_none());
    first.release().block().expect("released");
    assert!(one.lock("x").try_acquire().block().expect("an answer").is_none(), "one reader is left");
    second.release().block().expect("released");
    assert!(one.lock("x").try_acquire().block().expect("an answer").is_some());
}

/// And the next reader comes in when the writer is gone.
pub fn a_writer_keeps_readers_out(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let writer = one.lock("x").ttl(long_ttl(&one)).acquire().block().expect("free");
    assert!(other.lock("x").shared().try_acquire().block().expect("an answer").is_none());
    writer.release().block().expect("released");
    assert!(other.lock("x").shared().try_acquire().block().expect("an answer").is_some());
}

/// A writer in line stops new readers.
pub fn a_waiting_writer_is_not_starved_by_readers(subject: &impl Subject) {
    let (readers, writers) = (subject.locks("readers"), subject.locks("writers"));
    let ttl = long_ttl(&readers);
    let reader = readers.lock("x").ttl(ttl).shared().acquire().block().expect("free");
    let mut events = writers.events();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| writers.lock("x").ttl(ttl).wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        assert!(readers.lock("x").shared().try_acquire().block().expect("an answer").is_none(), "it overtook");
        reader.release().block().expect("released");
        let writer = writer.join().expect("no panic").expect("its turn");
        assert!(writer.is_held());
    });
    let both = [&readers, &writers].map(|locks| {
        let lock = locks.lock("x").ttl(ttl).shared().wait_forever();
        lock.acquire().block().expect("readers again")
    });
    assert!(both.iter().all(|reader| reader.is_held()));
}
