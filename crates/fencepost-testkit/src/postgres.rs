//! Real PostgreSQL servers.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::preload::Environment;
use crate::server::{Recipe, Server, act_as, find, place_certificate};

const USER: &str = "postgres";
const PACKAGE: &str = "postgresql";

/// How a PostgreSQL server is started: with one user `postgres`, whom it believes, and without waiting for the disk.
#[derive(Clone, Debug, Default)]
pub struct Postgres {
    options: Vec<String>,
    tls: Option<PathBuf>,
    environment: Environment,
}

impl Postgres {
    /// A server for tests.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this setting, such as `fsync=on`.
    pub fn with(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// Also speaks TLS, with the files `server.pem` and `server.key` of a folder.
    pub fn tls(mut self, folder: &Path) -> Self {
        self.tls = Some(folder.to_owned());
        self
    }

    /// With a preloaded library: the environment of one of [`crate::preload`].
    pub fn preloaded(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Starts it.
    pub fn start(self) -> Server<Self> {
        Server::start(self)
    }
}

impl Server<Postgres> {
    /// The URL of its database.
    pub fn url(&self) -> String {
        url(&self.address())
    }
}

/// The URL of such a server's database behind another address.
pub fn url(address: &str) -> String {
    format!("postgres://{USER}@{address}/postgres")
}

impl Recipe for Postgres {
    const PROGRAM: &'static str = "postgres";
    const PACKAGE: &'static str = PACKAGE;
    const USER: Option<&'static str> = Some(USER);
    /// At once, but what it shares with its children is given back to the system.
    const END: Signal = Signal::SIGQUIT;

    fn prepare(&self, folder: &Path) {
        let mut command = Command::new(find("initdb", PACKAGE));
        command.args(["--no-sync", "--no-instructions", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        command.args(["--username", USER, "--pgdata"]).arg(folder.join("data"));
        command.current_dir(folder).stdin(Stdio::null());
        act_as(&mut command, USER);
        let output = command.output().expect("a program that was found can be started");
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        self.tls.iter().for_each(|from| place_certificate(from, folder, USER));
    }

    fn command(&self, command: &mut Command, port: u16, folder: &Path) {
        command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]);
        let mut options = vec!["listen_addresses=127.0.0.1".to_owned(), "unix_socket_directories=".to_owned()];
        options.extend(["fsync=off", "max_connections=300", "shared_buffers=32MB"].map(str::to_owned));
        if self.tls.is_some() {
            let file = |name: &str| folder.join(name).display().to_string();
            options.push("ssl=on".to_owned());
            options.push(format!("ssl_cert_file={}", file("server.pem")));
            options.push(format!("ssl_key_file={}", file("server.key")));
        }
        options.extend_from_slice(&self.options);
        command.args(options.iter().flat_map(|option| ["-c", option])).envs(self.environment.iter().cloned());
    }

    fn ready(&self, stream: TcpStream) -> io::Result<()> {
        greet(stream, "postgres")
    }
}

/// Introduces itself as the protocol has it; `Ok` once it is let in.
pub(crate) fn greet(mut stream: TcpStream, database: &str) -> io::Result<()> {
    let mut words = Vec::from(196_608_u32.to_be_bytes());
    for word in ["user", USER, "database", database] {
        words.extend_from_slice(word.as_bytes());
        words.push(0);
    }
    words.push(0);
    let length = u32::try_from(words.len() + 4).expect("a few words");
    stream.write_all(&[&length.to_be_bytes()[..], &words].concat())?;
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    match kind {
        [b'R'] => Ok(()),
        _ => Err(io::Error::other("not yet")),
    }
}
