//! A real PgBouncer in transaction mode: whoever connects has another server connection with every transaction.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::postgres::{greet, url};
use crate::server::{Recipe, Server};

/// How the pooler is started.
#[derive(Clone, Debug)]
pub struct PgBouncer {
    server_port: u16,
    in_turns: bool,
}

impl PgBouncer {
    /// For the PostgreSQL server on this port of this machine.
    pub fn of(server_port: u16) -> Self {
        Self { server_port, in_turns: false }
    }

    /// Lends its sessions in turns; otherwise the one that was given back last.
    pub fn in_turns(mut self) -> Self {
        self.in_turns = true;
        self
    }

    /// Starts it.
    pub fn start(self) -> Server<Self> {
        Server::start(self)
    }

    /// Starts one before that server.
    pub fn before(server_port: u16) -> Server<Self> {
        Server::start(Self::of(server_port))
    }
}

impl Server<PgBouncer> {
    /// The URL of the database behind it.
    pub fn url(&self) -> String {
        url(&self.address())
    }
}

impl Recipe for PgBouncer {
    const PROGRAM: &'static str = "pgbouncer";
    const PACKAGE: &'static str = "pgbouncer";
    const USER: Option<&'static str> = Some("postgres");

    fn command(&self, command: &mut Command, port: u16, folder: &Path) {
        let file = folder.join("pgbouncer.ini");
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 5\nmax_client_conn = 300\n\
             ignore_startup_parameters = extra_float_digits\nserver_round_robin = {}\n",
            self.server_port,
            u8::from(self.in_turns)
        );
        fs::write(&file, text).expect("a file in our own folder");
        command.arg(file);
    }

    fn ready(&self, stream: TcpStream) -> io::Result<()> {
        greet(stream, "postgres")
    }
}
