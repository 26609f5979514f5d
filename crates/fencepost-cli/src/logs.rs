//! What is written to standard error while a lock is held: a thread of its own writes it, so that nobody waits for a
//! lock, and no command outlives its lease, because nobody reads the log.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// So many lines wait to be written; what comes then is counted and not kept.
const LINES_MAX: usize = 1024;
enum Line {
    Text(Vec<u8>),
    /// All before it is written.
    Mark(SyncSender<()>),
}

/// Where lines are put. Never blocks.
#[derive(Clone)]
pub(crate) struct Lines {
    queue: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

impl Lines {
    /// What is put here is written there. `missing` is the line for so many that found no room.
    pub(crate) fn to(out: impl Write + Send + 'static, missing: fn(u64) -> String) -> io::Result<Self> {
        let (queue, lines) = sync_channel(LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        let write = move || write_all(out, &lines, &counted, missing);
        thread::Builder::new().name("fencepost-log".into()).spawn(write)?;
        Ok(Self { queue, lost })
    }

    /// Puts text here, or counts it as lost. Never blocks.
    pub(crate) fn put(&self, text: &[u8]) {
        if self.queue.try_send(Line::Text(text.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was put here is written, but no longer than this for a reader that has gone to sleep.
    pub(crate) fn flush_within(&self, limit: Duration) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(Line::Mark(done)).is_ok() {
            let _ = written.recv_timeout(limit);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Both for people and for whoever reads JSON.
#[cfg(any(feature = "serve", test))]
pub(crate) fn missing_as_json(lines: u64) -> String {
    format!(r#"{{"level":"WARN","missing":{lines},"message":"nobody read the log in time"}}"#)
}

fn write_all(mut out: impl Write, lines: &Receiver<Line>, lost: &AtomicU64, missing: fn(u64) -> String) {
    for line in lines {
        // Nobody may be listening, and that must not stop us.
        let _ = match line {
            Line::Text(text) => out.write_all(&text),
            Line::Mark(done) => {
                let flushed = out.flush();
                let _ = done.send(());
                flushed
            }
        };
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(out, "{}", missing(lost));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn whoever_writes_does_not_wait_for_a_reader_and_the_reader_hears_what_is_missing() {
        let (reader, writer) = UnixStream::pair().expect("a pair");
        let mut lines = Lines::to(writer, missing_as_json).expect("a thread");
        let line = [b"x".repeat(1000), b"\n".to_vec()].concat();
        let many = 2 * LINES_MAX;
        (0..many).for_each(|_| lines.write_all(&line).expect("never refused"));
        let mut found = BufReader::new(reader).lines().map(|line| line.expect("text"));
        let mut told: u64 = 0;
        let mut read = 0;
        while told == 0 {
            match serde_json::from_str::<serde_json::Value>(&found.next().expect("the rest comes")) {
                Ok(missing) => told = missing["missing"].as_u64().expect("a number"),
                Err(_) => read += 1,
            }
        }
        assert!(read < many && told > 0, "{read} of {many} were read, {told} are missing");
    }

    #[test]
    fn what_was_put_there_is_written_when_it_is_flushed() {
        let (reader, writer) = UnixStream::pair().expect("a pair");
        let mut lines = Lines::to(writer, missing_as_json).expect("a thread");
        lines.write_all(b"the last word\n").expect("never refused");
        lines.flush_within(Duration::from_secs(1));
        reader.set_nonblocking(true).expect("our own socket");
        let mut word = String::new();
        BufReader::new(reader).read_line(&mut word).expect("it is there");
        assert_eq!(word, "the last word\n");
    }
}
