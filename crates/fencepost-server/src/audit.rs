//! Writes the audit log.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fencepost_history::audit::{Act, Chain, Entry};

use crate::bucket::{Bucket, Rate};

/// Strangers cannot fill the disk with refusals.
const DENIALS: Rate = Rate { per_second: 20.0, burst: 200.0 };
/// More than any line has.
const TAIL_BYTES: u64 = 64 << 10;

/// One file, one writer. A line is written before the answer that it is about leaves.
#[derive(Debug)]
pub struct AuditLog(Mutex<Writer>);

#[derive(Debug)]
struct Writer {
    path: PathBuf,
    file: File,
    chain: Chain,
    denials: Bucket,
    /// Acts since the last line that are not in the file.
    missed: u64,
    /// A piece of a line was written: the next one starts on a line of its own.
    torn: bool,
}

impl AuditLog {
    /// Goes on where the file ends. An error names the cure.
    pub fn open(path: &Path) -> Result<Self, String> {
        let of_file = |error: io::Error| format!("audit log {}: {error}", path.display());
        let mut file = opened(path)?;
        let (chain, torn) = resume(&mut file).map_err(of_file)?.ok_or_else(|| {
            format!(
                "audit log {}: its end is no audit log; look with `fencepost audit check`, and move it away",
                path.display()
            )
        })?;
        let path = path.to_owned();
        let writer = Writer { path, file, chain, denials: Bucket::full(DENIALS, Instant::now()), missed: 0, torn };
        let log = Self(Mutex::new(writer));
        log.write(beginning());
        Ok(log)
    }

    /// Goes on in a new file if this one was moved away. The first line there is bound to the last one here. Answers whether
    /// it did; `Err`: it goes on in the old one, and says why.
    pub(crate) fn look(&self) -> Result<bool, String> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_in_place() {
            return Ok(false);
        }
        let file = opened(&writer.path)?;
        if file.metadata().is_ok_and(|data| data.len() > 0) {
            let path = writer.path.display();
            return Err(format!(
                "audit log {path}: it was moved away, and there is another that has lines: move that too"
            ));
        }
        // What was torn stays behind.
        (writer.file, writer.torn) = (file, false);
        // Before anybody else writes a line there.
        writer.write(beginning());
        Ok(true)
    }

    /// Looks again and again, until dropped. `told` hears of each new file, and of each failure once.
    pub(crate) async fn follow(self: Arc<Self>, every: Duration, told: impl Fn(bool) + Send + 'static) {
        let mut failed = false;
        loop {
            tokio::time::sleep(every).await;
            let this = self.clone();
            match tokio::task::spawn_blocking(move || this.look()).await {
                Ok(Ok(false)) | Err(_) => continue,
                Ok(Ok(true)) => {
                    failed = false;
                    tracing::info!("the audit log was moved away; it goes on in a new file");
                    told(true);
                }
                Ok(Err(why)) if !failed => {
                    failed = true;
                    tracing::error!(why, "the audit log goes on in the file that was moved away");
                    told(false);
                }
                Ok(Err(_)) => {}
            }
        }
    }

    /// Whether one more line may be written of what anybody can bring about: as many as of denials.
    pub(crate) fn takes_hearsay(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).takes_hearsay()
    }

    /// Writes a line. What cannot be written is logged, and counted in the next line. Answers whether it is written.
    pub(crate) fn write(&self, entry: Entry) -> bool {
        // Under the lock: lines stand in the order of their times.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(entry)
    }
}

impl Writer {
    fn takes_hearsay(&mut self) -> bool {
        let taken = self.denials.take(DENIALS, Instant::now()).is_ok();
        self.missed += u64::from(!taken);
        taken
    }

    fn write(&mut self, mut entry: Entry) -> bool {
        if entry.act == Act::Denied && !self.takes_hearsay() {
            return false;
        }
        (entry.boot_ns, entry.at) = (boot_ns(), humantime::format_rfc3339_micros(SystemTime::now()).to_string());
        entry.missed = self.missed;
        let written = self.append(entry);
        if let Err(error) = &written {
            self.missed += 1;
            tracing::error!(%error, "the audit log cannot be written");
        }
        written.is_ok()
    }

    /// Whether the file that is written is the one of that name.
    fn is_in_place(&self) -> bool {
        let (Ok(there), Ok(here)) = (std::fs::metadata(&self.path), self.file.metadata()) else { return false };
        (there.dev(), there.ino()) == (here.dev(), here.ino())
    }

    fn append(&mut self, entry: Entry) -> io::Result<()> {
        let mut next = self.chain.clone();
        // Behind a torn line the log has to be opened again, or it counts as forged.
        if self.torn {
            self.file.write_all(b"\n")?;
            let opened = Entry { at: entry.at.clone(), boot_ns: entry.boot_ns, ..Entry::new(Act::Opened) };
            if entry.act != Act::Opened {
                self.file.write_all(next.append(opened)?.as_bytes())?;
                // It is there, also if the next line is not.
                self.chain = next.clone();
            }
        }
        let line = next.append(entry)?;
        self.torn = true;
        self.file.write_all(line.as_bytes())?;
        (self.torn, self.chain, self.missed) = (false, next, 0);
        Ok(())
    }
}

/// The file, made if it is not there, and ours alone.
fn opened(path: &Path) -> Result<File, String> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let file = options.open(path).map_err(|error| format!("audit log {}: {error}", path.display()))?;
    if file.try_lock().is_err() {
        return Err(format!(
            "audit log {}: another process writes it; give each service a file of its own",
            path.display()
        ));
    }
    Ok(file)
}

/// The first line of a service, or of a file.
fn beginning() -> Entry {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Entry { boot: Some(boot.trim().to_owned()), ..Entry::new(Act::Opened) }
}

/// The chain as far as the file has it, and whether its last line is torn. `None`: there is no such line.
fn resume(file: &mut File) -> io::Result<Option<(Chain, bool)>> {
    let bytes = file.metadata()?.len();
    let start = bytes.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let torn = tail.last().is_some_and(|last| *last != b'\n');
    let text = String::from_utf8_lossy(&tail);
    let mut whole = text.lines().rev().skip(usize::from(torn)).skip_while(|line| line.is_empty());
    Ok(match whole.next() {
        Some(last) => Chain::behind(last).map(|chain| (chain, torn)),
        None => (start == 0).then(|| (Chain::default(), torn)),
    })
}

#[cfg(target_os = "linux")]
pub(crate) fn boot_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn boot_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use fencepost_history::audit::{check, check_files};

    use super::*;

    fn report(path: &Path) -> fencepost_history::audit::Report {
        check(io::BufReader::new(File::open(path).expect("a file")), None).expect("read")
    }

    #[test]
    fn the_chain_goes_on_over_restarts_and_power_cuts() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        for round in 1..=3u64 {
            let log = AuditLog::open(&path).expect("a log");
            assert!(AuditLog::open(&path).expect_err("one writer").contains("another process"));
            log.write(Entry { lock: Some("x".into()), ..Entry::new(Act::Granted) });
            drop(log);
            assert_eq!(report(&path).head.seq, 2 * round);
            let mut file = OpenOptions::new().append(true).open(&path).expect("a file");
            file.write_all(b"{\"seq\":").expect("torn");
        }
        let report = report(&path);
        assert!(report.is_clean() && report.torn, "{report:?}");
        std::fs::write(&path, "something else\n").expect("a file");
        assert!(AuditLog::open(&path).expect_err("refused").contains("move it away"));
    }

    #[test]
    fn a_log_that_is_moved_away_goes_on_in_a_new_file_and_the_chain_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, old) = (folder.path().join("audit.jsonl"), folder.path().join("audit.jsonl.1"));
        let log = AuditLog::open(&path).expect("a log");
        let granted = |lock: &str| assert!(log.write(Entry { lock: Some(lock.into()), ..Entry::new(Act::Granted) }));
        granted("x");
        assert_eq!(log.look(), Ok(false), "nothing happened");
        std::fs::rename(&path, &old).expect("moved");
        granted("between");
        // Somebody's file is in the way: nothing is lost meanwhile.
        std::fs::write(&path, "something\n").expect("a file");
        assert!(log.look().expect_err("not ours").contains("move that too"));
        granted("y");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(log.look(), Ok(true));
        assert_eq!(log.look(), Ok(false));
        granted("z");
        drop(log);
        // A restart goes on there.
        drop(AuditLog::open(&path).expect("a log"));
        let read = |path: &Path| io::BufReader::new(File::open(path).expect("a file"));
        let both = check_files([read(&old), read(&path)], None, None).expect("read");
        assert!(both.is_clean() && both.head.seq == 7, "{both:?}");
        // The second alone is a piece of something: that is said, unless its beginning is vouched for.
        let head = report(&old).head.hash;
        assert!(report(&path).broken.expect("a piece").why.contains("another file"));
        assert!(check_files([read(&path)], Some(&head), None).expect("read").is_clean());
        assert!(!check_files([read(&path)], Some(&both.head.hash), None).expect("read").is_clean());
        assert!(!check_files([read(&path), read(&old)], None, None).expect("read").is_clean(), "the wrong way round");
    }

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let log = AuditLog::open(&path).expect("a log");
        let written = (0..10_000).filter(|_| log.write(Entry::new(Act::Denied))).count() as u64;
        log.write(Entry::new(Act::Granted));
        drop(log);
        let report = report(&path);
        assert!(report.is_clean() && report.head.seq < 1_000, "{report:?}");
        assert_eq!((report.head.seq, report.missed), (written + 2, 10_000 - written));
    }
}
