//! Other lock libraries, each in a small program of its own that runs it. One line asks, one line answers:
//!
//! | asked | answers |
//! |---|---|
//! | `lock NAME TTL_MS` | `held`, `busy` after one try |
//! | `wait NAME TTL_MS` | `held`, after the library's own retries, without end |
//! | `extend TTL_MS` | `kept`, `lost` |
//! | `unlock` | `done`; `lost` if the library says so |
//! | `keep NAME` | `held`, `busy`; kept by the library until it is unlocked |
//! | `force NAME` | `done`, `lost`: ends anybody's hold, where the library can |

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::{Server, find, find_in_setup};

/// A lock library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    NodeRedlock5,
    NodeRedlock4,
    RedisPy,
    Pottery,
    Rslock,
    Redisson,
}

impl Library {
    /// How one of ours shares its locks: what stands behind the `?` of our URL.
    pub(crate) fn our_settings(self) -> &'static str {
        match self {
            Self::NodeRedlock5 | Self::NodeRedlock4 | Self::Rslock => "prefix=",
            Self::RedisPy => "",
            Self::Pottery => "prefix=redlock:",
            Self::Redisson => "layout=redisson",
        }
    }

    /// What they call a lock of ours.
    pub(crate) fn their_name(self, name: &str) -> String {
        if self == Self::RedisPy { format!("lock:{name}") } else { name.to_owned() }
    }

    /// The key of both.
    pub(crate) fn key(self, name: &str) -> String {
        match self {
            Self::NodeRedlock5 | Self::NodeRedlock4 | Self::Rslock | Self::Redisson => name.to_owned(),
            Self::RedisPy => format!("lock:{name}"),
            Self::Pottery => format!("redlock:{name}"),
        }
    }

    /// On how many servers it can be.
    pub(crate) fn sizes(self) -> &'static [usize] {
        if matches!(self, Self::RedisPy | Self::Redisson) { &[1] } else { &[1, 3] }
    }

    fn command(self) -> Command {
        let node = |package: &str| {
            let mut command = Command::new(find("node", "nodejs"));
            command.arg(driver("redlock.mjs")).arg(find_in_setup("node")).arg(package);
            command
        };
        let python = |library: &str| {
            let mut command = Command::new(find_in_setup("python/bin/python"));
            command.arg(driver("locks.py")).arg(library);
            command
        };
        match self {
            Self::Redisson => {
                let mut command = Command::new(find("node", "nodejs"));
                command.arg(driver("redisson.mjs")).arg(find_in_setup("node"));
                command
            }
            Self::NodeRedlock5 => node("redlock"),
            Self::NodeRedlock4 => node("redlock-4"),
            Self::RedisPy => python("redis-py"),
            Self::Pottery => python("pottery"),
            Self::Rslock => Command::new(find_in_setup("rslock/debug/fencepost-interop-rslock")),
        }
    }
}

fn driver(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/drivers").join(name)
}

/// A process that runs one; ends with this.
pub(crate) struct Client {
    library: Library,
    process: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Client {
    pub(crate) fn start(library: Library, servers: &[Server<Redis>]) -> Self {
        let mut command = library.command();
        command.args(servers.iter().map(|server| server.port().to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a program that was found can be started");
        let asks = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("it is piped"));
        Self { library, process, asks, answers }
    }

    /// One try for a lock that one of ours knows by this name; a ttl of 0 never ends, where there is such a thing.
    pub(crate) fn lock(&mut self, name: &str, ttl_ms: u32) -> bool {
        self.ask(&format!("lock {} {ttl_ms}", self.library.their_name(name)));
        self.either("held", "busy")
    }

    /// Starts to wait for it; [`Client::has_it`] tells.
    pub(crate) fn wait(&mut self, name: &str, ttl_ms: u32) {
        self.ask(&format!("wait {} {ttl_ms}", self.library.their_name(name)));
    }

    /// Returns when it has what it waited for.
    pub(crate) fn has_it(&mut self) {
        assert!(self.either("held", "busy"), "{:?} waits without end", self.library);
    }

    pub(crate) fn extend(&mut self, ttl_ms: u32) -> bool {
        self.ask(&format!("extend {ttl_ms}"));
        self.either("kept", "lost")
    }

    /// Some libraries do not tell, so neither does this.
    pub(crate) fn unlock(&mut self) {
        self.gives_up();
    }

    /// The same; whether it was theirs, as far as they tell.
    pub(crate) fn gives_up(&mut self) -> bool {
        self.ask("unlock");
        self.either("done", "lost")
    }

    /// Takes it, and has the library keep it.
    pub(crate) fn keep(&mut self, name: &str) -> bool {
        self.ask(&format!("keep {}", self.library.their_name(name)));
        self.either("held", "busy")
    }

    /// Ends anybody's hold.
    pub(crate) fn force(&mut self, name: &str) -> bool {
        self.ask(&format!("force {}", self.library.their_name(name)));
        self.either("done", "lost")
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ended");
    }

    fn ask(&mut self, line: &str) {
        let asks = self.asks.as_mut().expect("BUG: open until dropped");
        writeln!(asks, "{line}").and_then(|()| asks.flush()).expect("it listens");
    }

    fn either(&mut self, yes: &str, no: &str) -> bool {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        let word = line.trim_end();
        assert!([yes, no].contains(&word), "{:?} answered {word:?} instead of {yes} or {no}", self.library);
        word == yes
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Each ends with its input; one that waits for a lock does not read it.
        drop(self.asks.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
