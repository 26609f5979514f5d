//! The gate: one writer at a time, the longest-waiting one first as a rule.

use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fencepost_core::store::StoreErrorKind;

use crate::error::Failure;
use crate::path;
use crate::store::ANSWER_WITHIN;

/// A writer needs the gate for one commit. If for so long nobody has written, whoever has it was stopped there.
const STILL_MAX: Duration = Duration::from_secs(5);
/// How often a waiter looks whether others write.
const LOOK_FOR_SIGNS: Duration = Duration::from_millis(200);
/// The first pause between two looks at the gate; it doubles, up to what [`pause_max`] allows.
const PAUSE_FIRST: Duration = Duration::from_micros(50);

/// While it lives nobody else writes: nobody meets "database is locked", and nobody waits for ever for a process that was
/// stopped.
#[derive(Debug)]
pub(crate) struct Pass<'a>(&'a File);

impl<'a> Pass<'a> {
    /// Waits its turn at the gate of this file.
    pub(crate) fn through(gate: &'a File, file: &Path) -> Result<Self, Failure> {
        let refused = |error| Failure::io(&path::beside(file, "-gate"), &error);
        match gate.try_lock() {
            Ok(()) => return Ok(Self(gate)),
            Err(TryLockError::Error(error)) => return Err(refused(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let mut patience = Patience::new(Instant::now(), Signs::of(file));
        let mut pause = PAUSE_FIRST;
        loop {
            thread::sleep(pause);
            match gate.try_lock() {
                Ok(()) => return Ok(Self(gate)),
                Err(TryLockError::Error(error)) => return Err(refused(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            let now = Instant::now();
            if let Some(end) = patience.end(now, || Signs::of(file)) {
                return Err(end.failure(file));
            }
            pause = (pause * 2).min(pause_max(now - patience.began));
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Who has waited for longer looks more often, so that it is unlikely to be passed by again and again where many wait. The
/// gate itself knows no order. Never so often that fifty who wait take the processor from the one who writes.
fn pause_max(waited: Duration) -> Duration {
    let micros = match waited.as_millis() {
        ..100 => 1000,
        100..1000 => 16_000,
        1000..2000 => 8000,
        2000..3000 => 4000,
        3000..4000 => 2000,
        _ => 1000,
    };
    Duration::from_micros(micros)
}

/// What changes whenever somebody writes: sizes and times of the file and its log.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Signs([Option<(u64, SystemTime)>; 2]);

impl Signs {
    fn of(file: &Path) -> Self {
        let sign = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some((found.len(), found.modified().ok()?))
        };
        Self([sign(file), sign(&path::beside(file, "-wal"))])
    }
}

/// How long it is worth waiting.
struct Patience {
    began: Instant,
    /// The last time that somebody was seen to write, and what was seen.
    moved: Instant,
    seen: Signs,
    looked: Instant,
}

/// Why waiting is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Nobody gets through.
    Still,
    /// Others do, for as long as an answer may take.
    Crowded,
}

impl Patience {
    fn new(now: Instant, seen: Signs) -> Self {
        Self { began: now, moved: now, seen, looked: now }
    }

    fn end(&mut self, now: Instant, signs: impl FnOnce() -> Signs) -> Option<End> {
        if now - self.looked >= LOOK_FOR_SIGNS {
            self.looked = now;
            let seen = signs();
            if seen != self.seen {
                (self.moved, self.seen) = (now, seen);
            }
        }
        match () {
            () if now - self.moved >= STILL_MAX => Some(End::Still),
            () if now - self.began >= ANSWER_WITHIN => Some(End::Crowded),
            () => None,
        }
    }
}

impl End {
    fn failure(self, file: &Path) -> Failure {
        let (what, cure) = match self {
            Self::Still => (
                "another process keeps writers out",
                "find the process that was stopped in the middle of a write; continue it or end it",
            ),
            Self::Crowded => (
                "too many processes write to it at once: our turn did not come in time",
                "try again, use a faster disk, or a server",
            ),
        };
        Failure::new(StoreErrorKind::TooSlow, &path::beside(file, "-gate"), what, cure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(size: u64) -> Signs {
        Signs([Some((size, SystemTime::UNIX_EPOCH)), None])
    }

    #[test]
    fn a_process_that_was_stopped_at_the_gate_keeps_nobody_for_ever() {
        let began = Instant::now();
        let mut patience = Patience::new(began, signs(1));
        let almost = STILL_MAX - Duration::from_millis(1);
        assert_eq!(patience.end(began + almost, || signs(1)), None);
        let end = patience.end(began + STILL_MAX, || signs(1)).expect("nobody writes");
        assert_eq!(end, End::Still);
        let said = format!("{:?}", end.failure(Path::new("locks.db")));
        assert!(said.contains("locks.db-gate") && said.contains("continue it or end it"), "{said}");
    }

    #[test]
    fn who_sees_others_write_waits_for_as_long_as_an_answer_may_take() {
        let began = Instant::now();
        let mut patience = Patience::new(began, signs(0));
        for step in 1..=9 {
            let now = began + Duration::from_secs(step);
            assert_eq!(patience.end(now, || signs(step)), None, "after {step} s");
        }
        let end = patience.end(began + ANSWER_WITHIN, || signs(10)).expect("for too long");
        assert_eq!(end, End::Crowded);
        let said = format!("{:?}", end.failure(Path::new("locks.db")));
        assert!(said.contains("at once") && said.contains("try again"), "{said}");
    }

    #[test]
    fn a_commit_is_a_sign() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("locks.db");
        let connection = rusqlite::Connection::open(&file).expect("opens");
        connection.pragma_update(None, "journal_mode", "WAL").expect("a log");
        connection.execute_batch("CREATE TABLE t (x)").expect("a table");
        let before = Signs::of(&file);
        assert_eq!(before, Signs::of(&file));
        connection.execute_batch("INSERT INTO t VALUES (1)").expect("a row");
        assert_ne!(before, Signs::of(&file));
    }

    #[test]
    fn the_gate_is_shut_while_a_pass_lives() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, gate) = (folder.path().join("locks.db"), folder.path().join("locks.db-gate"));
        let open = || File::options().create(true).truncate(false).write(true).open(&gate).expect("a file");
        let (first, second) = (open(), open());
        let pass = Pass::through(&first, &file).expect("free");
        assert!(matches!(second.try_lock(), Err(TryLockError::WouldBlock)));
        drop(pass);
        assert!(Pass::through(&second, &file).is_ok());
    }
}
