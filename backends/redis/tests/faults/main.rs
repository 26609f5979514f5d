//! Real faults on real servers: clocks that jump, processes that are stopped and killed, networks that are cut, disks that
//! are full or forget. Beside each stands its control: the wrong way to do it, which fails. docs/faults.md has the list.

mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod holders;

use fencepost_testkit::process::role;

/// Not a test of its own: what the other processes run.
#[test]
fn in_another_process() {
    let Some((role, place)) = role() else { return };
    match role.as_str() {
        "sleeps" => clocks::sleeps(&place),
        "believes another time" => clocks::believes_another_time(&place),
        "is paused" => holders::is_paused(&place),
        "is killed" => holders::is_killed(&place),
        role => unreachable!("BUG: no role {role}"),
    }
}
