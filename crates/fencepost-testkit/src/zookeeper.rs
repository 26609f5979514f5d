//! Real ZooKeeper servers: one, or three that are an ensemble.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ports::free_peer_ports;
use crate::server::{Recipe, Server, find, find_in_setup};
use crate::wait::until;

/// So many servers has an ensemble.
const SERVERS: usize = 3;
/// Where Debian keeps the program.
const JAR: &str = "/usr/share/java/zookeeper.jar";

/// How a ZooKeeper server is started: alone, and quick enough to end sessions of seconds.
#[derive(Clone, Debug)]
pub struct ZooKeeper {
    number: usize,
    /// `server.1=…` and so on; empty if it is alone.
    members: String,
    longest_session: Duration,
    shortest_session: Option<Duration>,
    lines: String,
    flags: Vec<String>,
}

impl ZooKeeper {
    /// A server that is alone.
    pub fn new() -> Self {
        Self {
            number: 1,
            members: String::new(),
            longest_session: Duration::from_secs(120),
            shortest_session: None,
            lines: String::new(),
            flags: Vec::new(),
        }
    }

    /// The longest session that it grants.
    pub fn longest_session(mut self, longest: Duration) -> Self {
        self.longest_session = longest;
        self
    }

    /// The shortest session that it grants; by default two ticks.
    pub fn shortest_session(mut self, shortest: Duration) -> Self {
        self.shortest_session = Some(shortest);
        self
    }

    /// Starts it.
    pub fn start(self) -> Server<Self> {
        Server::start(self)
    }
}

impl Default for ZooKeeper {
    fn default() -> Self {
        Self::new()
    }
}

impl Recipe for ZooKeeper {
    const PROGRAM: &'static str = "java";
    const PACKAGE: &'static str = "default-jre-headless zookeeper";

    fn program(&self) -> PathBuf {
        assert!(
            Path::new(JAR).is_file(),
            "this test needs {JAR}: run `cargo xtask setup` (or `apt-get install -y zookeeper`)"
        );
        find(Self::PROGRAM, Self::PACKAGE)
    }

    fn command(&self, command: &mut Command, port: u16, folder: &Path) {
        let data = folder.join("data");
        fs::create_dir_all(&data).expect("a folder of its own");
        fs::write(data.join("myid"), self.number.to_string()).expect("a file of its own");
        let longest = self.longest_session.as_millis();
        let shortest = self.shortest_session.map(|span| format!("minSessionTimeout={}\n", span.as_millis()));
        // A sync to disk would cost time and protect nobody: a process that is killed loses nothing that it has written.
        let settings = format!(
            "tickTime=500\ninitLimit=40\nsyncLimit=4\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             maxClientCnxns=0\nmaxSessionTimeout={longest}\nadmin.enableServer=false\n4lw.commands.whitelist=srvr,dump\n\
             forceSync=no\n{}{}{}",
            data.display(),
            shortest.unwrap_or_default(),
            self.lines,
            self.members
        );
        let file = folder.join("zoo.cfg");
        fs::write(&file, settings).expect("a file of its own");
        command.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]);
        command.args(["-Dzookeeper.forceSync=no", "-Dzookeeper.fsync.warningthresholdms=60000"]);
        // Servers that look for a leader tell each other more and more seldom, up to once a minute.
        command.arg("-Dzookeeper.fastleader.maxNotificationInterval=1000");
        command.args(&self.flags);
        command.arg("-cp").arg(JAR).arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(&file);
    }

    fn ready(&self, stream: TcpStream) -> io::Result<()> {
        if !self.members.is_empty() || mode(stream)?.is_some() { Ok(()) } else { Err(io::Error::other("not yet")) }
    }
}

impl Server<ZooKeeper> {
    /// The sessions that it knows of, as long as it is alone.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn sessions(&self) -> Vec<String> {
        let stream = TcpStream::connect(self.address()).expect("it is up");
        let dump = ask(stream, b"dump").expect("an answer");
        let sessions = dump.lines().take_while(|line| !line.starts_with("ephemeral nodes"));
        sessions.map(str::trim).filter(|line| line.starts_with("0x")).map(str::to_owned).collect()
    }
}

fn ask(mut stream: TcpStream, word: &[u8]) -> io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(word)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// `leader`, `follower` or `standalone`; `None`: it serves nobody.
fn mode(stream: TcpStream) -> io::Result<Option<String>> {
    let answer = ask(stream, b"srvr")?;
    Ok(answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned))
}

/// Three servers that are one.
#[derive(Debug)]
pub struct Ensemble {
    /// The servers; which one leads changes.
    pub servers: Vec<Server<ZooKeeper>>,
}

impl Ensemble {
    /// Starts all of them and waits until each serves.
    ///
    /// # Panics
    /// If they do not come to that.
    pub fn start() -> Self {
        Self::of(SERVERS, 0, &ZooKeeper::new())
    }

    /// The same of so many that vote and so many that only observe.
    ///
    /// # Panics
    /// If they do not come to that.
    pub fn of_some(voters: usize, observers: usize) -> Self {
        Self::of(voters, observers, &ZooKeeper::new())
    }

    /// The same of servers that let clients read while they are cut off from the others.
    ///
    /// # Panics
    /// If they do not come to that.
    pub fn that_reads_alone() -> Self {
        let flags = vec!["-Dreadonlymode.enabled=true".to_owned()];
        Self::of(SERVERS, 0, &ZooKeeper { flags, ..ZooKeeper::new() })
    }

    fn of(voters: usize, observers: usize, recipe: &ZooKeeper) -> Self {
        let ports = free_peer_ports(2 * (voters + observers));
        let role = |number: usize| if number > voters { ":observer" } else { "" };
        let member = |(number, pair): (usize, &[u16])| {
            format!("server.{number}=127.0.0.1:{}:{}{}\n", pair[0], pair[1], role(number))
        };
        let members: String = (1..).zip(ports.chunks(2)).map(member).collect();
        let recipes = (1..=voters + observers).map(|number| {
            let lines = if number > voters { "peerType=observer\n".to_owned() } else { String::new() };
            ZooKeeper { number, members: members.clone(), lines, ..recipe.clone() }
        });
        let ensemble = Self { servers: recipes.map(Server::start).collect() };
        ensemble.until_whole();
        ensemble
    }

    /// Waits until each of them serves.
    ///
    /// # Panics
    /// If it does not come to that.
    pub fn until_whole(&self) {
        until("every server serves", || self.servers.iter().all(|server| mode_of(server).is_some()));
    }

    /// Which of them leads, as it says itself; not `but`, which may not know better.
    ///
    /// # Panics
    /// If nobody leads.
    pub fn leader(&self, but: Option<usize>) -> usize {
        let mut leader = None;
        until("somebody leads", || {
            let others = self.servers.iter().enumerate().filter(|(number, _)| Some(*number) != but);
            leader = others
                .filter(|(_, server)| mode_of(server).as_deref() == Some("leader"))
                .map(|(number, _)| number)
                .next();
            leader.is_some()
        });
        leader.expect("BUG: just found")
    }

    /// `A,B,C`, as they stand in a URL.
    pub fn place(&self) -> String {
        self.servers.iter().map(Server::address).collect::<Vec<_>>().join(",")
    }
}

fn mode_of(server: &Server<ZooKeeper>) -> Option<String> {
    TcpStream::connect(server.address()).and_then(mode).ok().flatten()
}

/// A program of Python that uses another client, kazoo, at these servers (`A,B,C`).
pub fn kazoo(program: &Path, servers: &str, path: &str, session: Duration) -> Command {
    let mut command = Command::new(find_in_setup("python/bin/python"));
    command.arg(program).args([servers, path, &session.as_secs().to_string()]);
    command
}
