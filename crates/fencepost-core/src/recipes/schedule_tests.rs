use std::time::Duration;

use super::*;

const MS: Duration = Duration::from_millis(1);
const LOS_ANGELES: &str = "America/Los_Angeles";

fn time(rfc3339: &str) -> SystemTime {
    rfc3339.parse::<Timestamp>().expect("a time").into()
}

/// When windows begin after one time and up to another, as clocks there show it: `08T03:00-07`.
fn windows(cron: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let schedule = Schedule::cron(cron, zone).expect("a schedule");
    let (mut at, to, mut found) = (time(from), time(to), Vec::new());
    while let Some(next) = schedule.next(at).filter(|next| *next <= to) {
        let local = schedule.local(next);
        found.push(format!("{}{}", &local[8..16], &local[19..22]));
        at = next;
    }
    found
}

/// Clocks go forward there, from 02:00 to 03:00, on March 8 at 10:00 UTC.
fn in_march(cron: &str) -> Vec<String> {
    windows(cron, LOS_ANGELES, "2026-03-08T08:59:00Z", "2026-03-08T12:00:00Z")
}

/// Clocks go back there, from 02:00 to 01:00, on November 1 at 09:00 UTC.
fn in_november(cron: &str) -> Vec<String> {
    windows(cron, LOS_ANGELES, "2026-11-01T06:59:00Z", "2026-11-01T11:00:00Z")
}

#[test]
fn a_daily_job_runs_at_its_hour_there_in_summer_and_in_winter() {
    let nightly = Schedule::daily("02:00", LOS_ANGELES).expect("a schedule");
    for (now, began, next) in [
        ("2026-07-15T08:59:59Z", "2026-07-14T02:00:00-07:00", "2026-07-15T02:00:00-07:00"),
        ("2026-07-15T09:00:00Z", "2026-07-15T02:00:00-07:00", "2026-07-16T02:00:00-07:00"),
        ("2026-12-15T09:59:59.999Z", "2026-12-14T02:00:00-08:00", "2026-12-15T02:00:00-08:00"),
        ("2026-12-15T10:00:00.001Z", "2026-12-15T02:00:00-08:00", "2026-12-16T02:00:00-08:00"),
    ] {
        let local = |time: Option<SystemTime>| nightly.local(time.expect("a time"));
        assert_eq!(
            (local(nightly.last(time(now))), local(nightly.next(time(now)))),
            (began.into(), next.into()),
            "{now}"
        );
    }
}

#[test]
fn an_hour_that_is_skipped_moves_its_windows_to_the_first_moment_after_it() {
    assert_eq!(in_march("0 2 * * *"), ["08T03:00-07"]);
    assert_eq!(in_march("30 2 * * *"), ["08T03:00-07"]);
    assert_eq!(in_march("15,45 2 * * *"), ["08T03:00-07"], "one window, not two");
    assert_eq!(in_march("30 1,2,3 * * *"), ["08T01:30-08", "08T03:00-07", "08T03:30-07"]);
    assert_eq!(
        in_march("*/30 * * * *"),
        ["08T01:00-08", "08T01:30-08", "08T03:00-07", "08T03:30-07", "08T04:00-07", "08T04:30-07", "08T05:00-07"]
    );
}

#[test]
fn an_hour_that_is_repeated_has_its_window_the_first_time() {
    assert_eq!(in_november("30 1 * * *"), ["01T01:30-07"]);
    assert_eq!(in_november("0,30 1 * * *"), ["01T01:00-07", "01T01:30-07"]);
    let both = [
        "01T00:00-07",
        "01T00:30-07",
        "01T01:00-07",
        "01T01:30-07",
        "01T01:00-08",
        "01T01:30-08",
        "01T02:00-08",
        "01T02:30-08",
        "01T03:00-08",
    ];
    assert_eq!(in_november("*/30 * * * *"), both);
}

/// The window of a time is the one that began last: whoever asks, at whatever second of these two days.
#[test]
fn every_moment_lies_in_the_window_that_began_last() {
    for cron in [
        "0 2 * * *",
        "30 2 * * *",
        "30 1 * * *",
        "0,30 1 * * *",
        "15,45 2 * * *",
        "*/30 * * * *",
        "*/15 1,2 * * *",
        "0 * * * *",
    ] {
        let schedule = Schedule::cron(cron, LOS_ANGELES).expect("a schedule");
        for day in ["2026-03-08T00:00:00Z", "2026-11-01T00:00:00Z"].map(time) {
            let mut began = schedule.last(day - MS).expect("it began");
            for now in
                (0..24 * 4).map(|part| day + Duration::from_secs(900) * part).flat_map(|at| [at - MS, at, at + MS])
            {
                while let Some(next) = schedule.next(began).filter(|next| *next <= now) {
                    began = next;
                }
                let found = schedule.last(now).expect("it began");
                assert_eq!(schedule.local(found), schedule.local(began), "{cron} at {}", schedule.local(now));
            }
        }
    }
}

/// Half an hour in Lord Howe, a whole day in Samoa.
#[test]
fn gaps_of_other_lengths() {
    let lord_howe = windows("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T14:00:00Z", "2026-10-04T14:00:00Z");
    assert_eq!(lord_howe, ["04T02:30+11"]);
    let apia = windows("0 2 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-31T11:00:00Z");
    assert_eq!(apia, ["29T02:00-10", "31T00:00+14", "31T02:00+14"], "December 30 was left out");
}

#[test]
fn days_of_the_week_and_of_the_month() {
    let days = windows("0 2 * * MON-FRI", "UTC", "2026-11-13T00:00:00Z", "2026-11-17T00:00:00Z");
    assert_eq!(days, ["13T02:00+00", "16T02:00+00"]);
    let leap = Schedule::cron("0 0 29 2 *", "UTC").expect("a schedule");
    assert_eq!(
        leap.next(time("2026-01-01T00:00:00Z")).map(|next| leap.local(next)),
        Some("2028-02-29T00:00:00+00:00".into())
    );
}

#[test]
fn what_cannot_be_is_refused_with_a_cure() {
    for time in ["2:00", "24:00", "02:60", "02:00:00", "", "noon", "+2:00", "02:0x"] {
        let refused = Schedule::daily(time, "UTC").expect_err("no time of day");
        assert_eq!(refused.field, "at", "{time}");
    }
    for cron in ["", "0 2 * *", "0 0 2 * * *", "61 * * * *", "0 2 30 2 *", "soon"] {
        let refused = Schedule::cron(cron, "UTC").expect_err("no schedule");
        assert_eq!(refused.field, "cron", "{cron}");
    }
    for zone in ["", "Mars/Base", "../../etc/passwd", "local"] {
        assert_eq!(Schedule::daily("02:00", zone).expect_err("no zone").field, "tz", "{zone}");
    }
}

#[test]
fn a_schedule_is_read_again_as_it_was_noted() {
    let nightly = Schedule::daily("02:30", "Europe/Berlin").expect("a schedule");
    let noted = serde_json::to_string(nightly.text()).expect("JSON");
    assert_eq!(noted, r#"{"cron":"30 2 * * *","zone":"Europe/Berlin"}"#);
    assert_eq!(serde_json::from_str::<ScheduleText>(&noted).expect("read").read(), Some(nightly));
}
