//! Once per window.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fencepost_core::{AcquireError, Blocking, Guard, LossReason, Ran, RunError, Schedule};
use fencepost_testkit::poll;

use crate::{HOUR, MS, SECOND, TTL, World, endless, is_stale, never};

#[test]
fn a_job_runs_once_per_window_and_a_slow_clock_repeats_none() {
    let world = World::of(1);
    let runs = AtomicU32::new(0);
    let job = || world.locks().once_per_window("job", HOUR);
    let run = || job().run(async |_| Ok::<_, &str>(runs.fetch_add(1, Ordering::SeqCst))).block().expect("an answer");
    assert_eq!((run(), run()), (Some(0), None));
    world.clock.turn(HOUR - MS);
    assert_eq!(run(), None, "the same hour");
    world.clock.turn(MS);
    assert_eq!((run(), run()), (Some(1), None));
    let noon = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    world.clock.set_wall(noon + HOUR - 5 * SECOND);
    assert_eq!(run(), None, "a clock that is slow is in an older window");
    let state = job().inspect().block().expect("an answer");
    assert_eq!(state.last_window, Some(Ran::Since(noon + HOUR)));
    assert_eq!((state.last_run, state.failed, state.running), (Some(noon + HOUR), None, None));
    assert_eq!(state.next, Some(noon + HOUR));
    world.clock.set_wall(noon + 2 * HOUR);
    assert_eq!((run(), run()), (Some(2), None));
}

#[test]
fn a_named_window_runs_once_and_others_skip_while_it_runs() {
    let world = World::of(1);
    let job = |window: &str| world.locks().once_per_window("job", window);
    let first = job("2026-11-15T02");
    let mut running = Box::pin(first.run(endless::<()>));
    assert!(poll::once(running.as_mut()).is_none());
    assert!(job("2026-11-15T02").run(never::<()>).block().expect("an answer").is_none(), "somebody runs it");
    assert!(job("").inspect().block().expect("an answer").running.is_some());
    drop(running);
    for (window, runs) in [("2026-11-15T02", true), ("2026-11-15T03", true), ("2026-11-15T02", false)] {
        let ran = job(window).run(async |_| Ok::<_, &str>(())).block().expect("an answer");
        assert_eq!(ran.is_some(), runs, "{window}");
    }
    assert_eq!(job("x").inspect().block().expect("an answer").last_window, Some(Ran::Named("2026-11-15T03".into())));
    let bad = job("").run(never::<()>).block();
    assert!(matches!(bad, Err(RunError::Acquire(AcquireError::Invalid(bad))) if bad.field == "window"));
}

#[test]
fn a_failed_run_counts_and_a_dead_runner_does_not() {
    let world = World::of(1);
    let job = || world.locks().once_per_window("job", HOUR);
    let (dead, next) = (job(), job());
    let mut dying = Box::pin(dead.run(endless::<u8>));
    assert!(poll::once(dying.as_mut()).is_none());
    world.clock.stall(TTL - MS);
    assert_eq!(next.run(never::<u8>).block().expect("an answer"), None, "it may live");
    world.clock.stall(SECOND);
    let failed = next.run(async |_| Err::<u8, _>("disk full")).block();
    assert!(matches!(failed, Err(RunError::Work("disk full"))), "{failed:?}");
    assert!(matches!(poll::once(dying.as_mut()), Some(Err(RunError::Lost(_)))));
    assert_eq!(job().run(never::<u8>).block().expect("an answer"), None, "it has run");
    assert_eq!(job().inspect().block().expect("an answer").failed.as_deref(), Some("disk full"));
}

#[test]
fn a_runner_that_slept_through_its_lease_notes_nothing() {
    let world = World::of(1);
    let job = || world.locks().once_per_window("job", HOUR);
    let mut token = None;
    let slow = job();
    let late = slow.run(async |mine| {
        token = Some(mine.token());
        world.clock.stall(TTL + SECOND);
        let theirs = job().run(async |_| Err::<u8, _>("theirs")).block();
        assert!(matches!(theirs, Err(RunError::Work("theirs"))));
        Ok::<_, &str>(1)
    });
    let late = late.block().expect_err("overtaken");
    assert!(is_stale(&late, token.expect("it ran")), "{late:?}");
    assert_eq!(job().inspect().block().expect("an answer").failed.as_deref(), Some("theirs"));
}

#[test]
fn nobody_starts_again_before_the_least_time_nor_runs_past_the_most() {
    let world = World::of(1);
    let job = || world.locks().once_per_window("job", SECOND).at_least_for(60 * SECOND);
    let quick = async |_: &Guard| Ok::<_, &str>(());
    assert!(job().run(quick).block().expect("an answer").is_some());
    for after in [2 * SECOND, 57 * SECOND, 999 * MS] {
        world.clock.turn(after);
        assert_eq!(job().run(never::<()>).block().expect("an answer"), None);
    }
    world.clock.turn(MS);
    assert!(job().run(quick).block().expect("an answer").is_some(), "60 s after the start");

    // Longer than any lease: it is renewed, and ends all the same.
    let limited = world.locks().once_per_window("long", HOUR).at_most_for(600 * SECOND);
    let mut running = pin!(limited.run(endless::<()>));
    assert!(poll::once(running.as_mut()).is_none());
    for _ in 0..590 {
        world.clock.turn(SECOND);
        assert!(poll::once(running.as_mut()).is_none());
    }
    world.clock.turn(11 * SECOND);
    match world.soon(running) {
        Err(RunError::Lost(lost)) => assert_eq!(lost.reason, LossReason::HoldLimit),
        other => panic!("{other:?}"),
    }
    let state = limited.inspect().block().expect("an answer");
    assert_eq!(state.failed.as_deref(), Some("stopped after 10m"));
    assert_eq!(limited.run(never::<()>).block().expect("an answer"), None, "it counts as failed");
}

/// Two in the morning in Los Angeles is 9:00 in UTC in summer, and 10:00 in winter, which begins in that night.
#[test]
fn a_schedule_has_one_run_per_day_at_its_hour_there() {
    let world = World::of(1);
    let nightly = Schedule::daily("02:00", "America/Los_Angeles").expect("a schedule");
    let job = || world.locks().once_per_window("report", nightly.clone()).start_within(HOUR);
    let run = || job().run(async |_| Ok::<_, &str>(())).block().expect("an answer").is_some();
    let october_31 = UNIX_EPOCH + Duration::from_secs(1_793_404_800);
    for (hours, ran) in [(8, false), (9, true), (9, false), (24, false), (33, false), (34, true), (34, false)] {
        world.clock.set_wall(october_31 + hours * HOUR);
        assert_eq!(run(), ran, "{hours} h");
    }
    let late = world.locks().once_per_window("other", nightly.clone());
    assert!(late.run(async |_| Ok::<_, &str>(())).block().expect("an answer").is_some(), "late is better than never");
    world.clock.set_wall(october_31 + 36 * HOUR);
    let skipped = world.locks().once_per_window("third", nightly.clone()).start_within(HOUR);
    assert!(!skipped.is_due().block().expect("an answer"), "its hour is over");
    // Whoever asks need not know the schedule.
    let state = world.locks().once_per_window("report", "").inspect().block().expect("an answer");
    assert_eq!(state.last_window, nightly.last(october_31 + 36 * HOUR).map(Ran::Since));
    assert_eq!((state.next, state.schedule), (nightly.next(october_31 + 36 * HOUR), Some(nightly.clone())));
    let named = world.locks().once_per_window("report", "once more").start_within(HOUR).run(never::<()>).block();
    assert!(matches!(named, Err(RunError::Acquire(AcquireError::Invalid(bad))) if bad.field == "start_within"));
}

/// A run of a schedule that is begun here and finished elsewhere is noted as one that was run here.
#[test]
fn a_scheduled_run_is_finished_elsewhere() {
    let world = World::of(1);
    let locks = world.locks();
    let nightly = Schedule::cron("0 2 * * *", "Europe/Berlin").expect("a schedule");
    let job = locks.once_per_window("report", nightly.clone());
    let guard = job.lock().acquire().block().expect("free");
    let began = job.begin(guard.token()).block().expect("an answer");
    assert_eq!(began, Some(job.which()));
    assert!(locks.finish_window("report", guard.token(), None, TTL).block().expect("an answer"));
    guard.release().block().expect("an answer");
    assert!(!job.is_due().block().expect("an answer"));
    let state = locks.once_per_window("report", "").inspect().block().expect("an answer");
    assert_eq!((state.last_window, state.schedule), (began, Some(nightly)));
}
