//! A run inside a run.

use crate::support::{HOLD, PROGRAM, Place};

#[test]
fn a_run_inside_a_run_of_the_same_lock_starts_at_once() {
    let place = Place::new();
    let script = format!(
        "echo $FENCEPOST_TOKEN $FENCEPOST_OWNER; {PROGRAM} run -n a -- sh -c 'echo $FENCEPOST_TOKEN $FENCEPOST_OWNER'"
    );
    let done = place.run(&["a"], &["sh", "-c", &script]).end().with_code(0);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines[0], lines[1]);
}

#[test]
fn a_then_b_then_a_re_enters() {
    let place = Place::new();
    let script = format!(
        "echo $FENCEPOST_TOKEN; {PROGRAM} run -n b -- {PROGRAM} run -n a -- \
         sh -c 'echo $FENCEPOST_TOKEN; echo $FENCEPOST_LOCK; echo owner=$FENCEPOST_OWNER'"
    );
    let done = place.run(&["a"], &["sh", "-c", &script]).end().with_code(0);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines[0], lines[1]);
    // The owner of `b` is not the owner of `a`, and that of `a` is not known any more.
    assert_eq!(lines[2..], ["a", "owner="]);
    assert!(place.is_free("a") && place.is_free("b"));
}

#[test]
fn an_inner_run_does_not_release_the_outer_lock() {
    let place = Place::new();
    let script = format!("{PROGRAM} run a -- true; echo held; read -r line; exit 0");
    let running = place.run(&["a"], &["sh", "-c", &script]).start_until_it_says("held");
    place.run(&["-n", "a"], &["true"]).end().with_code(75);
    running.let_go().with_code(0);
}

#[test]
fn a_store_may_be_spelled_in_two_ways() {
    let place = Place::new();
    let script = format!("{PROGRAM} run --store sqlite:locks.db -n a -- true");
    place.run(&["a"], &["sh", "-c", &script]).end().with_code(0);
}

#[test]
fn a_hold_that_is_gone_is_no_way_in() {
    let place = Place::new();
    let old = place.run(&["a"], &["sh", "-c", "echo $FENCEPOST_HELD"]).end().stdout;
    let holder = place.run(&["a"], &HOLD).start_until_it_says("held");
    place.run(&["-n", "a"], &["true"]).set("FENCEPOST_HELD", old.trim()).end().with_code(75);
    holder.let_go().with_code(0);
}

#[test]
fn a_reader_that_wants_to_write_is_refused_and_does_not_wait_for_itself() {
    let place = Place::new();
    let writer = format!("{PROGRAM} run a -- true");
    place.run(&["-s", "a"], &["sh", "-c", &writer]).end().with_code(2).saying("outer run");
    let reader = format!("{PROGRAM} run -s a -- true");
    place.run(&["-s", "a"], &["sh", "-c", &reader]).end().with_code(0);
    place.run(&["a"], &["sh", "-c", &reader]).end().with_code(0);
}
