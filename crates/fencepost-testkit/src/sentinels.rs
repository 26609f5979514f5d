//! A Redis master with two replicas, and three sentinels that watch them.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::redis::{Redis, SpeaksRedis, ask_on};
use crate::server::{Recipe, Server};
use crate::wait::{PATIENCE, a_moment, until};

/// The name that the sentinels know the master by.
pub const MASTER: &str = "main";

/// After how long sentinels take a master for gone that does not answer.
const SOON: Duration = Duration::from_millis(600);

/// A sentinel.
#[derive(Clone, Debug)]
pub struct Sentinel {
    watched: u16,
    down_after: Duration,
    lines: String,
}

impl Sentinel {
    /// One that watches a master at this port.
    pub fn watching(port: u16) -> Self {
        Self { watched: port, down_after: SOON, lines: String::new() }
    }

    /// With this line in its file.
    pub fn with(mut self, line: &str) -> Self {
        self.lines += &format!("{line}\n");
        self
    }
}

impl Recipe for Sentinel {
    const PROGRAM: &'static str = "redis-server";
    const PACKAGE: &'static str = "redis-server";

    fn command(&self, command: &mut Command, port: u16, folder: &Path) {
        let file = folder.join("sentinel.conf");
        // A sentinel writes what it knows into its file: one that starts again goes on with it.
        if !file.exists() {
            let text = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor {MASTER} 127.0.0.1 {} 2\n\
                 sentinel down-after-milliseconds {MASTER} {}\nsentinel failover-timeout {MASTER} 3000\n\
                 sentinel parallel-syncs {MASTER} 2\n{}\n",
                self.watched,
                self.down_after.as_millis(),
                self.lines
            );
            fs::write(&file, text).expect("a file in our own folder");
        }
        command.arg(file).arg("--sentinel");
    }

    fn ready(&self, stream: TcpStream) -> io::Result<()> {
        let answer = ask_on(stream, &["PING"], Self::QUITS)?;
        if answer.starts_with("+PONG") || answer.starts_with("-NOAUTH") {
            Ok(())
        } else {
            Err(io::Error::other(answer))
        }
    }
}

impl SpeaksRedis for Sentinel {
    const QUITS: bool = false;
}

/// One master, two replicas, three sentinels.
#[derive(Debug)]
pub struct Sentinels {
    /// The servers; which one is the master changes.
    pub servers: Vec<Server<Redis>>,
    /// Who watches them.
    pub sentinels: Vec<Server<Sentinel>>,
}

impl Sentinels {
    /// Starts all of them and waits until they know each other.
    ///
    /// # Panics
    /// If they do not come to that.
    pub fn start() -> Self {
        Self::start_watching(SOON)
    }

    /// The same, but the sentinels make a failover only when told to: they forgive a master that is silent for a while, on a
    /// busy machine or because writing rests, and with it what they tell each other through it.
    ///
    /// # Panics
    /// If they do not come to that.
    pub fn start_patient() -> Self {
        Self::start_watching(2 * PATIENCE)
    }

    fn start_watching(down_after: Duration) -> Self {
        let recipe = Redis::new().with("--repl-diskless-sync-delay 0 --repl-ping-replica-period 1");
        let master = recipe.clone().start();
        let follow = format!("--replicaof 127.0.0.1 {}", master.port());
        let mut servers = vec![master];
        servers.extend((0..2).map(|_| recipe.clone().with(&follow).start()));
        let watched = servers[0].port();
        let sentinel = Sentinel { down_after, ..Sentinel::watching(watched) };
        let sentinels = (0..3).map(|_| Server::start(sentinel.clone())).collect();
        let set = Self { servers, sentinels };
        for sentinel in &set.sentinels {
            // They look around more often than they would. Not too often: the first to hear of a promotion that another
            // has begun takes it for a mistake, and undoes it. And they promote only who has told of itself within five
            // periods of a ping, while they ask once a second.
            let periods =
                [("info-period", "100"), ("ping-period", "400"), ("ask-period", "100"), ("publish-period", "500")];
            let words = periods.iter().flat_map(|(period, span)| [*period, *span]);
            let words: Vec<&str> = ["SENTINEL", "DEBUG"].into_iter().chain(words).collect();
            sentinel.ask(&words);
        }
        set.until_whole();
        set
    }

    /// Waits until there is a master with two replicas that follow, and all sentinels see it so.
    ///
    /// # Panics
    /// If it does not come to that.
    pub fn until_whole(&self) {
        until("the set is whole", || {
            let addresses: Vec<Option<u16>> = self.sentinels.iter().map(Self::master_by).collect();
            let Some(port) = addresses[0].filter(|port| addresses.iter().all(|other| *other == Some(*port))) else {
                return false;
            };
            let Some(master) = self.servers.iter().find(|server| server.port() == port) else { return false };
            self.sentinels.iter().all(Self::sees_all)
                && master.ask(&["INFO", "replication"]).matches("state=online").count() == 2
        });
    }

    /// Where a sentinel says that the master is.
    fn master_by(sentinel: &Server<Sentinel>) -> Option<u16> {
        sentinel.words(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).get(1)?.parse().ok()
    }

    fn sees_all(sentinel: &Server<Sentinel>) -> bool {
        let words = sentinel.words(&["SENTINEL", "MASTER", MASTER]);
        let field = |name: &str| words.iter().position(|word| word == name).map(|at| words[at + 1].clone());
        let replicas = sentinel.words(&["SENTINEL", "REPLICAS", MASTER]);
        let flags = replicas.iter().zip(replicas.iter().skip(1)).filter(|(field, _)| *field == "flags");
        let down = flags.into_iter().any(|(_, flags)| flags != "slave");
        field("flags").as_deref() == Some("master")
            && field("num-slaves").as_deref() == Some("2")
            && field("num-other-sentinels").as_deref() == Some("2")
            && !down
    }

    /// The number of the server that is the master, as the first sentinel sees it.
    ///
    /// # Panics
    /// If it names none of ours.
    pub fn master(&self) -> usize {
        self.master_of(0)
    }

    /// The same as another sentinel sees it.
    ///
    /// # Panics
    /// If it names none of ours.
    pub fn master_of(&self, sentinel: usize) -> usize {
        let port = Self::master_by(&self.sentinels[sentinel]).expect("the sentinel knows a master");
        self.servers.iter().position(|server| server.port() == port).expect("one of ours")
    }

    /// Makes another server the master, and waits until all sentinels say so and it is.
    ///
    /// # Panics
    /// If it does not come to that.
    pub fn fail_over(&self) {
        let before = self.master();
        until("the first sentinel makes a failover", || {
            self.sentinels[0].ask(&["SENTINEL", "FAILOVER", MASTER]);
            let asked = Instant::now();
            // One that was begun may be given up.
            while self.master() == before && asked.elapsed() < Duration::from_secs(5) {
                a_moment();
            }
            self.master() != before
        });
        self.until_moved_from(before);
    }

    /// The same as whoever plans it does it: writing rests until the replicas have everything, so that nothing is lost. For
    /// sentinels that are [patient](Self::start_patient): others promote a replica meanwhile that has not.
    ///
    /// # Panics
    /// If it does not come to that.
    pub fn fail_over_in_order(&self) {
        let before = &self.servers[self.master()];
        before.ask(&["CLIENT", "PAUSE", &PATIENCE.as_millis().to_string(), "WRITE"]);
        // Heartbeats go on being counted: what was written by now is what matters.
        let offsets = |mark: &str| -> Vec<u64> {
            let picture = before.ask(&["INFO", "replication"]);
            picture.split(mark).skip(1).filter_map(|rest| digits(rest).parse().ok()).collect()
        };
        let written = offsets("master_repl_offset:")[0];
        until("the replicas have everything", || {
            let received = offsets("offset=");
            received.len() == 2 && received.iter().all(|offset| *offset >= written)
        });
        self.fail_over();
        // What the sentinels tell it to do rests as well; and without a pause it would take what no replica hears of.
        let master = self.servers[self.master()].port().to_string();
        before.ask(&["REPLICAOF", "127.0.0.1", &master]);
        before.ask(&["CLIENT", "UNPAUSE"]);
    }

    /// Waits until all sentinels name another master than this server, and it is one.
    ///
    /// # Panics
    /// If it does not come to that.
    pub fn until_moved_from(&self, before: usize) {
        until("another server is the master", || {
            let port = self.servers[before].port();
            let named: Vec<Option<u16>> = self.sentinels.iter().map(Self::master_by).collect();
            let same = named.iter().all(|other| *other == named[0]);
            same && named[0].is_some_and(|named| named != port)
                && self.servers[self.master()].ask(&["ROLE"]).contains("master")
        });
    }

    /// `SENTINEL,SENTINEL,SENTINEL/NAME`: what stands in a URL.
    pub fn place(&self) -> String {
        let addresses: Vec<String> = self.sentinels.iter().map(Server::address).collect();
        format!("{}/{MASTER}", addresses.join(","))
    }
}

/// The number at the start of a text.
fn digits(text: &str) -> &str {
    &text[..text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_failover_waits_for_a_replica_that_lags() {
        let set = Sentinels::start_patient();
        let master = set.master();
        let behind = &set.servers[usize::from(master == 0)];
        behind.pause();
        set.servers[master].ask(&["SET", "written", "last"]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Longer than sentinels wait that are not patient.
                std::thread::sleep(3 * SOON);
                behind.resume();
            });
            set.fail_over_in_order();
        });
        assert_ne!(set.master(), master);
        set.until_whole();
        assert!(set.servers.iter().all(|server| server.ask(&["GET", "written"]).contains("last")));
    }
}
