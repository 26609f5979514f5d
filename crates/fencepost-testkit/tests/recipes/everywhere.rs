//! What all recipes share.

use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, Guard, Locks, Once, RunError, StoreErrorKind};

use crate::{HOUR, World, never};

#[test]
fn nodes_that_vote_keep_no_records_and_work_with_a_store_that_does() {
    let (voting, keeping) = (World::of(5), World::of(1));
    let refused = |said: String| assert!(said.contains("keep_records_in"), "{said}");
    let all = |locks: &Locks| {
        let work = async |_: &Guard| Ok::<_, &str>(1);
        [
            locks.once_per_key("k", b"p").run(work).block().map(drop).map_err(|error| error.to_string()),
            locks.once_per_window("k", HOUR).run(work).block().map(drop).map_err(|error| error.to_string()),
            locks
                .single_flight("k")
                .get(async || Ok::<_, &str>(1))
                .block()
                .map(drop)
                .map_err(|error| error.to_string()),
            locks.stock("k").set(1).block().map_err(|error| error.to_string()),
        ]
    };
    all(&voting.locks()).into_iter().for_each(|answer| refused(answer.expect_err("no records there")));
    let both = voting.locks().keep_records_in(&keeping.locks());
    all(&both).into_iter().for_each(|answer| answer.expect("a store that keeps records"));
    assert_eq!(both.once_per_key("k", b"p").run(never::<i32>).block().expect("there"), Once::Replayed(1));
}

#[test]
fn a_name_that_leaves_no_room_is_refused_by_its_own_field() {
    let locks = World::of(1).locks();
    for (name, cure) in [(String::new(), "it has 0 bytes"), ("x".repeat(251), "it has 251 bytes")] {
        let says = |said: String, field: &str| {
            assert!(said.contains(&format!("invalid {field} ")) && said.contains(cure), "{said}");
        };
        says(locks.once_per_key(&name, b"p").run(never::<u8>).block().expect_err("refused").to_string(), "key");
        says(locks.once_per_window(&name, HOUR).run(never::<u8>).block().expect_err("refused").to_string(), "name");
        says(locks.once_per_window(&name, HOUR).inspect().block().expect_err("refused").to_string(), "name");
        let unused = async || -> Result<u8, &str> { panic!("it rebuilt") };
        says(locks.single_flight(&name).get(unused).block().expect_err("refused").to_string(), "key");
        let refused = locks.stock(&name).reserve(1, HOUR).block().expect_err("refused");
        assert_eq!(refused.kind, StoreErrorKind::Misconfigured);
        says(refused.to_string(), "item");
        says(locks.stock(&name).left().block().expect_err("refused").to_string(), "item");
    }
    let longest = "x".repeat(249);
    let work = async |_: &Guard| Ok::<_, &str>(1);
    locks.once_per_key(&longest, b"p").run(work).block().expect("fits");
    locks.once_per_window(&longest, HOUR).run(work).block().expect("fits");
    locks.single_flight(&longest).get(async || Ok::<_, &str>(1)).block().expect("fits");
    locks.stock(&longest).set(1).block().expect("fits");
}

#[test]
fn spans_that_make_no_sense_are_refused() {
    let locks = World::of(1).locks();
    let field = |outcome: RunError<&str>| match outcome {
        RunError::Acquire(AcquireError::Invalid(invalid)) => invalid.field,
        other => panic!("{other:?}"),
    };
    let window = |every| locks.once_per_window("w", every);
    assert_eq!(field(window(Duration::ZERO).run(never::<u8>).block().expect_err("no span")), "window");
    let none = window(HOUR).at_most_for(Duration::ZERO);
    assert_eq!(field(none.run(never::<u8>).block().expect_err("no span")), "at_most_for");
    let long = window(HOUR).at_least_for(Duration::MAX);
    assert_eq!(field(long.run(never::<u8>).block().expect_err("too long")), "at_least_for");
    let unused = async || -> Result<u8, &'static str> { panic!("it rebuilt") };
    let stale = locks.single_flight("k").fresh_for(Duration::ZERO);
    assert_eq!(field(stale.get(unused).block().expect_err("no span")), "fresh_for");
    for (count, hold_for, field) in
        [(0, HOUR, "count"), (1, Duration::ZERO, "hold_for"), (1, Duration::MAX, "hold_for")]
    {
        let refused = locks.stock("s").reserve(count, hold_for).block().expect_err("refused").to_string();
        assert!(refused.contains(field), "{refused}");
    }
}
