//! `run --permits`: so many at once.

use crate::support::{HOLD, PROGRAM, Place};

#[test]
fn so_many_runs_hold_at_once_each_with_a_slot_of_its_own() {
    let place = Place::new();
    let tell = "echo $FENCEPOST_SLOT; echo held; read -r line; exit 0";
    let mut slots = Vec::new();
    let holders: Vec<_> = (0..2)
        .map(|_| {
            let mut running = place.run(&["--permits", "2", "s"], &["sh", "-c", tell]).start();
            slots.push(running.line());
            assert_eq!(running.line(), "held");
            running
        })
        .collect();
    slots.sort_unstable();
    assert_eq!(slots, ["0", "1"]);
    place.run(&["--permits", "2", "-n", "s"], &["true"]).end().with_code(75);
    place.run(&["-n", "s"], &["true"]).end().with_code(0);
    let shown = place.json(&["show", "--permits", "2", "s"]);
    let held = |slot: usize| shown["slots"][slot]["holders"].as_array().expect("a list").len();
    assert_eq!((held(0), held(1)), (1, 1), "{shown}");
    for holder in holders {
        holder.let_go().with_code(0);
    }
    assert!(place.is_free("s/permit#0") && place.is_free("s/permit#1") && place.is_free("s/permit#line"));
}

#[test]
fn several_permits_have_a_slot_and_a_token_each() {
    let place = Place::new();
    let script = "echo $FENCEPOST_SLOT; echo $FENCEPOST_TOKEN";
    let done = place.run(&["--permits", "3", "--take", "2", "s"], &["sh", "-c", script]).end().with_code(0);
    let numbers = |list: &str| list.split(',').map(|number| number.parse().expect("a number")).collect::<Vec<u64>>();
    let lists: Vec<Vec<u64>> = done.stdout.lines().map(numbers).collect();
    assert!(lists.len() == 2 && lists.iter().all(|list| list.len() == 2), "{lists:?}");
    // Each slot is a lock of its own: what was granted at one moment may have the same token.
    assert_ne!(lists[0][0], lists[0][1], "one slot twice");
}

#[test]
fn a_waiting_run_gets_the_next_permit() {
    let place = Place::new();
    let holder = place.run(&["--permits", "1", "s"], &HOLD).start_until_it_says("held");
    let mut waiter = place.run(&["-v", "--permits", "1", "s"], &["true"]).start();
    waiter.until_it_notes("waiting for s");
    holder.let_go().with_code(0);
    waiter.end().with_code(0);
}

#[test]
fn a_lock_inside_permits_is_told_nothing_of_a_slot_and_re_enters() {
    let place = Place::new();
    let inner = format!("{PROGRAM} run -n --permits 2 s -- {PROGRAM} run -n a -- sh -c 'echo slot=$FENCEPOST_SLOT'");
    let done = place.run(&["a"], &["sh", "-c", &inner]).end().with_code(0);
    assert_eq!(done.stdout, "slot=\n");
}

/// Also with the last permit, where a run that took another would wait for itself for ever.
#[test]
fn a_run_inside_permits_enters_them() {
    let place = Place::new();
    let tell = "echo $FENCEPOST_SLOT $FENCEPOST_TOKEN $FENCEPOST_OWNER";
    for (permits, take) in [("1", "1"), ("3", "2")] {
        let inner = format!("{tell}; {PROGRAM} run -n --permits {permits} --take {take} s -- sh -c '{tell}'");
        let run = place.run(&["--permits", permits, "--take", take, "s"], &["sh", "-c", &inner]);
        let done = run.end().with_code(0);
        let lines: Vec<&str> = done.stdout.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], lines[1]);
    }
    assert!(place.is_free("s/permit#0"));
}

#[test]
fn a_run_inside_permits_may_take_fewer_and_others_lie_between() {
    let place = Place::new();
    let inner = format!(
        "echo $FENCEPOST_SLOT; {PROGRAM} run -n a -- {PROGRAM} run -n --permits 3 s -- \
         sh -c 'echo $FENCEPOST_SLOT; echo owner=$FENCEPOST_OWNER'"
    );
    let done = place.run(&["--permits", "3", "--take", "2", "s"], &["sh", "-c", &inner]).end().with_code(0);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(lines[0].split(',').any(|slot| slot == lines[1]), "{lines:?}");
    assert_eq!(lines[2], "owner=");
}

#[test]
fn a_run_inside_permits_that_wants_more_is_refused_and_does_not_wait_for_itself() {
    let place = Place::new();
    let inner = format!("{PROGRAM} run --permits 3 --take 2 s -- true");
    let done = place.run(&["--permits", "3", "s"], &["sh", "-c", &inner]).end().with_code(2);
    done.saying("--take");
    assert!((0..3).all(|slot| place.is_free(&format!("s/permit#{slot}"))));
}

#[test]
fn permits_that_are_gone_are_no_way_in() {
    let place = Place::new();
    let old = place.run(&["--permits", "1", "s"], &["sh", "-c", "echo $FENCEPOST_HELD"]).end().stdout;
    assert!(old.starts_with("s/permit%230="), "{old}");
    let holder = place.run(&["--permits", "1", "s"], &HOLD).start_until_it_says("held");
    place.run(&["-n", "--permits", "1", "s"], &["true"]).set("FENCEPOST_HELD", old.trim()).end().with_code(75);
    holder.let_go().with_code(0);
}

#[test]
fn bad_numbers_are_refused_by_the_name_of_the_flag() {
    let place = Place::new();
    place.run(&["--permits", "0", "s"], &["true"]).end().with_code(2).saying("--permits");
    place.run(&["--permits", "2", "--take", "3", "s"], &["true"]).end().with_code(2).saying("--take");
    place.run(&["--take", "1", "s"], &["true"]).end().with_code(2).saying("--permits");
    place.run(&["--permits", "2", "--shared", "s"], &["true"]).end().with_code(2).saying("--shared");
    place.run(&["s/permit#0"], &["true"]).end().with_code(2).saying("semaphore");
}
