//! This machine: what a client brings along.

use std::process::Command;
use std::time::Duration;

use fencepost::doctor::{Report, Severity, shown};
use nix::sys::resource::{Resource, getrlimit};
use nix::time::{ClockId, clock_gettime};

const PLACE: &str = "this machine";
/// A client needs few; the service one per connection.
const FILES_MIN: u64 = 1024;

pub(crate) fn examine(report: &mut Report) {
    judge_synchronization(report);
    judge_suspend(report);
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        report.fact(PLACE, "open files", format!("at most {soft}, may be raised to {hard}"));
        if soft < FILES_MIN {
            let evidence = format!("a process may open {soft} files, sockets included");
            let cure = "raise it: `ulimit -n 65536`, or LimitNOFILE= in the unit";
            report.find(Severity::Warning, "open-files", PLACE, evidence, cure);
        }
    }
}

/// Whether the clock follows a time source, as far as whoever keeps it here tells.
fn judge_synchronization(report: &mut Report) {
    let asked = Command::new("timedatectl").args(["show", "--property=NTPSynchronized", "--value"]).output();
    let said = asked.ok().filter(|output| output.status.success());
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let cure = "run chrony or systemd-timesyncd";
    match said.as_deref() {
        Some("yes") => report.fact(PLACE, "clock", "follows a time source"),
        Some("no") => {
            let evidence = "the clock follows no time source: tokens and the order of queues need clocks that agree";
            report.find(Severity::Warning, "clock-sync", PLACE, evidence, cure);
        }
        _ => {
            let evidence = "cannot tell whether the clock follows a time source: timedatectl does not say";
            report.find(Severity::Notice, "clock-sync", PLACE, evidence, cure);
        }
    }
}

/// A machine that sleeps while it holds a lock wakes up without it.
fn judge_suspend(report: &mut Report) {
    let read = |clock| clock_gettime(clock).map(Duration::from).unwrap_or_default();
    let awake = read(ClockId::CLOCK_MONOTONIC);
    let slept = read(ClockId::CLOCK_BOOTTIME).saturating_sub(awake);
    if slept > Duration::from_secs(1) {
        let evidence = format!("it has been suspended for {} since it was started", shown(slept));
        let cure =
            "nothing to do: leases continue while it sleeps, and a holder that wakes up too late is told of the loss";
        report.find(Severity::Notice, "suspend", PLACE, evidence, cure);
    }
}
