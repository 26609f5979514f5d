//! Real MariaDB servers.

use std::io::{self, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::preload::Environment;
use crate::server::{Recipe, Server, act_as, find, place_certificate};

const USER: &str = "mysql";
const PACKAGE: &str = "mariadb-server";

/// How a MariaDB server is started: `root` has no password, and there is one database, `test`.
#[derive(Clone, Debug, Default)]
pub struct MariaDb {
    options: Vec<String>,
    tls: Option<PathBuf>,
    environment: Environment,
}

impl MariaDb {
    /// A server for tests.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this option, such as `--max-connections=20`.
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

impl Server<MariaDb> {
    /// The URL of its database.
    pub fn url(&self) -> String {
        url(&self.address())
    }
}

/// The URL of such a server's database behind another address.
pub fn url(address: &str) -> String {
    format!("mysql://root@{address}/test")
}

impl Recipe for MariaDb {
    const PROGRAM: &'static str = "mariadbd";
    const PACKAGE: &'static str = PACKAGE;
    const USER: Option<&'static str> = Some(USER);

    fn prepare(&self, folder: &Path) {
        let mut command = Command::new(find("mariadb-install-db", PACKAGE));
        command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-name-resolve"]);
        command.arg(format!("--datadir={}", folder.join("data").display()));
        // Several that are made at once would meet in the system's folder.
        command.current_dir(folder).env("TMPDIR", folder).stdin(Stdio::null());
        act_as(&mut command, USER);
        let output = command.output().expect("a program that was found can be started");
        assert!(output.status.success(), "mariadb-install-db: {}", String::from_utf8_lossy(&output.stderr));
        self.tls.iter().for_each(|from| place_certificate(from, folder, USER));
    }

    fn command(&self, command: &mut Command, port: u16, folder: &Path) {
        let at = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
        command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
        command.args([format!("--port={port}"), at("datadir", "data"), at("socket", "socket"), at("pid-file", "pid")]);
        command.env("TMPDIR", folder);
        command.args(["--max-connections=400", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=16M"]);
        if self.tls.is_some() {
            command.args([at("ssl-cert", "server.pem"), at("ssl-key", "server.key")]);
        }
        command.args(&self.options).envs(self.environment.iter().cloned());
    }

    /// It speaks first, and with the version of its protocol once it lets clients in.
    fn ready(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut greeting = [0; 5];
        stream.read_exact(&mut greeting)?;
        match greeting[4] {
            10 => Ok(()),
            _ => Err(io::Error::other("not yet")),
        }
    }
}
