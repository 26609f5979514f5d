//! Real etcd servers: one, or three that are a cluster.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ports::free_port;
use crate::server::{Recipe, Server, find};
use crate::wait::until;

/// So many members has a cluster.
const MEMBERS: usize = 3;

/// How long the lease lasts that all connections of a day share.
const SHARED_S: u32 = 3 * 24 * 3600;

/// How an etcd server is started: alone, and quick enough to notice a missing leader for leases of a second.
#[derive(Clone, Debug)]
pub struct Etcd {
    name: String,
    peer: u16,
    members: String,
    tls: Option<PathBuf>,
    /// It becomes ready only with others.
    one_of_several: bool,
    /// It joins those that are there.
    joins: bool,
    options: Vec<String>,
}

impl Etcd {
    /// A server that is alone.
    pub fn new() -> Self {
        let peer = free_port();
        let members = member(0, peer);
        Self { name: name(0), peer, members, tls: None, one_of_several: false, joins: false, options: Vec::new() }
    }

    /// Speaks TLS with clients, and with nobody who shows no certificate, with the files `ca.pem`, `server.pem` and
    /// `server.key` of a folder.
    pub fn tls(mut self, folder: &Path) -> Self {
        self.tls = Some(folder.to_owned());
        self
    }

    /// With this option, such as `--quota-backend-bytes=200000`.
    pub fn with(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// Starts it.
    pub fn start(self) -> Server<Self> {
        Server::start(self)
    }
}

impl Default for Etcd {
    fn default() -> Self {
        Self::new()
    }
}

fn name(number: usize) -> String {
    format!("node{number}")
}

fn member(number: usize, peer: u16) -> String {
    format!("{}=http://127.0.0.1:{peer}", name(number))
}

impl Recipe for Etcd {
    const PROGRAM: &'static str = "etcd";
    const PACKAGE: &'static str = "etcd-server";

    fn command(&self, command: &mut Command, port: u16, folder: &Path) {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let (clients, peers) = (format!("{scheme}://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", self.peer));
        let state = if self.joins { "existing" } else { "new" };
        command.args(["--name", &self.name, "--data-dir"]).arg(folder.join("data"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &self.members, "--initial-cluster-state", state]);
        command.args(["--heartbeat-interval", "60", "--election-timeout", "600", "--logger", "zap"]);
        command.args(&self.options);
        if let Some(folder) = &self.tls {
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(folder.join("ca.pem"));
            command.arg("--cert-file").arg(folder.join("server.pem"));
            command.arg("--key-file").arg(folder.join("server.key"));
        }
    }

    fn ready(&self, stream: TcpStream) -> io::Result<()> {
        if self.one_of_several || self.tls.is_some() {
            return Ok(());
        }
        if is_healthy(stream)? { Ok(()) } else { Err(io::Error::other("not yet")) }
    }
}

impl Server<Etcd> {
    /// The leases that somebody has granted, but for the one of the day that all connections share.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn leases(&self) -> Vec<String> {
        let ask = |arguments: &[&str]| {
            let output = etcdctl(&self.address()).args(arguments).output().expect("etcdctl runs");
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).expect("text")
        };
        let of_the_day = format!("granted with TTL({SHARED_S}s)");
        let listed = ask(&["lease", "list"]);
        let ids = listed.lines().filter(|line| !line.starts_with("found")).map(str::to_owned);
        ids.filter(|id| !ask(&["lease", "timetolive", id]).contains(&of_the_day)).collect()
    }
}

/// Whether it sees a leader.
fn is_healthy(mut stream: TcpStream) -> io::Result<bool> {
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.contains(r#""health":"true""#))
}

/// Three servers that are one.
#[derive(Debug)]
pub struct EtcdCluster {
    /// The servers; which one leads changes.
    pub servers: Vec<Server<Etcd>>,
}

impl EtcdCluster {
    /// Starts all of them and waits until each sees a leader.
    ///
    /// # Panics
    /// If they do not come to that.
    pub fn start() -> Self {
        Self::start_all(&[])
    }

    /// The same, each with this option.
    ///
    /// # Panics
    /// If they do not come to that.
    pub fn with(option: &str) -> Self {
        Self::start_all(&[option])
    }

    fn start_all(options: &[&str]) -> Self {
        let peers: Vec<u16> = (0..MEMBERS).map(|_| free_port()).collect();
        let members: Vec<String> = peers.iter().enumerate().map(|(number, peer)| member(number, *peer)).collect();
        let members = members.join(",");
        let recipes = peers.iter().enumerate().map(|(number, peer)| Etcd {
            name: name(number),
            peer: *peer,
            members: members.clone(),
            one_of_several: true,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            ..Etcd::new()
        });
        let cluster = Self { servers: recipes.map(Server::start).collect() };
        cluster.until_whole();
        cluster
    }

    /// Starts one more, which may only learn at first.
    ///
    /// # Panics
    /// If the others do not take it.
    pub fn join(&self, learns: bool) -> Server<Etcd> {
        let (number, peer) = (self.servers.len(), free_port());
        let mut command = etcdctl(&self.place());
        command.args(["member", "add", &name(number), &format!("--peer-urls=http://127.0.0.1:{peer}")]);
        if learns {
            command.arg("--learner");
        }
        // They take nobody while they have known each other for a few seconds only.
        until("the others take it", || command.output().is_ok_and(|output| output.status.success()));
        let members = format!("{},{}", self.servers[0].recipe().members, member(number, peer));
        Etcd { name: name(number), peer, members, one_of_several: true, joins: true, ..Etcd::new() }.start()
    }

    /// Waits until each of them sees a leader.
    ///
    /// # Panics
    /// If it does not come to that.
    pub fn until_whole(&self) {
        until("every member sees a leader", || self.servers.iter().all(sees_leader));
    }

    /// Which of them leads, as a member other than `but` sees it.
    ///
    /// # Panics
    /// If nobody leads.
    pub fn leader(&self, but: Option<usize>) -> usize {
        let mut leader = None;
        until("somebody leads", || {
            let others = self.servers.iter().enumerate().filter(|(number, _)| Some(*number) != but);
            leader = others.filter(|(_, server)| leads(server)).map(|(number, _)| number).next();
            leader.is_some()
        });
        leader.expect("BUG: just found")
    }

    /// `A,B,C`, as they stand in a URL.
    pub fn place(&self) -> String {
        self.servers.iter().map(Server::address).collect::<Vec<_>>().join(",")
    }
}

fn sees_leader(server: &Server<Etcd>) -> bool {
    TcpStream::connect(server.address()).and_then(is_healthy).unwrap_or(false)
}

/// Whether it says of itself that it leads.
fn leads(server: &Server<Etcd>) -> bool {
    let asked = TcpStream::connect(server.address()).and_then(|mut stream| {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    asked.is_ok_and(|answer| answer.contains("\netcd_server_is_leader 1"))
}

/// The command of another client, at these servers (`A,B,C`).
pub fn etcdctl(place: &str) -> Command {
    let mut command = Command::new(find("etcdctl", "etcd-client"));
    command.env("ETCDCTL_API", "3").args(["--endpoints", place]);
    command
}
