//! Every process below us, also those that left the command's process group.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Makes orphans below us our children, so that none escapes by the death of its parent.
pub(super) fn adopt_orphans() {
    // Without it only the command's process group can be ended: less, but not nothing.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Kills all of them that can be seen now.
pub(super) fn kill_all() {
    for pid in living() {
        // It may be gone by now.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// All that live, in no order.
pub(super) fn living() -> Vec<Pid> {
    let processes: Vec<Process> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Process::read)
        .collect();
    let mut below = vec![i32::try_from(std::process::id()).expect("BUG: process ids are positive i32")];
    let mut next = 0;
    while let Some(&parent) = below.get(next) {
        below.extend(processes.iter().filter(|process| process.parent == parent).map(|process| process.id));
        next += 1;
    }
    let alive = |id: &i32| processes.iter().any(|process| process.id == *id && !process.dead);
    below.into_iter().skip(1).filter(alive).map(Pid::from_raw).collect()
}

struct Process {
    id: i32,
    parent: i32,
    dead: bool,
}

impl Process {
    fn read(id: i32) -> Option<Self> {
        Self::parse(id, &std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    /// `1234 (any name) S 1 …`: the name may hold blanks and parentheses.
    fn parse(id: i32, stat: &str) -> Option<Self> {
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        Some(Self { id, parent, dead: matches!(state, "Z" | "X") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_have_any_name() {
        let process = Process::parse(7, "7 (a) Z (b) S 3 7 7").expect("a process");
        assert_eq!((process.parent, process.dead), (3, false));
        assert!(Process::parse(7, "7 (gone) Z 3 7 7").expect("a process").dead);
    }
}
