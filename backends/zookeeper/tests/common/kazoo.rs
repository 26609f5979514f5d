//! Another client on the same servers: kazoo, a process of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use fencepost_testkit::zookeeper::kazoo;

/// A running program; see `kazoo_lock.py`.
pub(crate) struct Kazoo {
    process: Child,
    say: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Kazoo {
    /// On the lock `x` below this root.
    pub(crate) fn start(servers: &str, root: &str) -> Self {
        Self::start_with(servers, root, Duration::from_secs(60))
    }

    /// On the lock `x` below this root, without the pattern that makes it see our nodes.
    pub(crate) fn start_plain(servers: &str, root: &str) -> Self {
        Self::run_with(servers, &format!("/{root}/x"), Duration::from_secs(60), &["plain"])
    }

    /// On any node.
    pub(crate) fn start_at(servers: &str, path: &str) -> Self {
        Self::run(servers, path, Duration::from_secs(60))
    }

    /// With a session that lasts for so long.
    pub(crate) fn start_with(servers: &str, root: &str, session: Duration) -> Self {
        Self::run(servers, &format!("/{root}/x"), session)
    }

    fn run(servers: &str, path: &str, session: Duration) -> Self {
        Self::run_with(servers, path, session, &[])
    }

    fn run_with(servers: &str, path: &str, session: Duration, more: &[&str]) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/kazoo_lock.py");
        let mut command = kazoo(&program, servers, path, session);
        let started = command.args(more).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.expect("a program that was found can be started");
        let (say, hear) = (process.stdin.take().expect("a pipe"), process.stdout.take().expect("a pipe"));
        Self { process, say, hear: BufReader::new(hear) }
    }

    /// Says something that is not answered at once.
    pub(crate) fn say(&mut self, words: &str) {
        writeln!(self.say, "{words}").expect("it listens");
    }

    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        self.hear.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.say(words);
        self.hear()
    }

    /// Names of the nodes of the lock, in line.
    pub(crate) fn names(&mut self) -> Vec<String> {
        self.ask("names").split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Kazoo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
