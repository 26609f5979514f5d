//! Real Redis servers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::preload::Environment;
use crate::server::{Recipe, Server, find, find_in_setup};

/// Which server program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edition {
    /// The one that this machine has.
    #[default]
    System,
    /// Redis 6.2, the oldest that we promise.
    Redis6,
    /// Redis 8.0.
    Redis8,
    /// Valkey 8.1.
    Valkey8,
    /// Valkey 9.1.
    Valkey9,
}

impl Edition {
    /// Its program in `target/setup/servers`; `None`: the system's.
    fn program(self) -> Option<&'static str> {
        match self {
            Self::System => None,
            Self::Redis6 => Some("redis-6.2"),
            Self::Redis8 => Some("redis-8.0"),
            Self::Valkey8 => Some("valkey-8.1"),
            Self::Valkey9 => Some("valkey-9.1"),
        }
    }
}

/// How a Redis server is started: without persistence unless told.
#[derive(Clone, Debug, Default)]
pub struct Redis {
    edition: Edition,
    options: Vec<String>,
    tls: bool,
    environment: Environment,
}

impl Redis {
    /// A server that forgets everything when it ends.
    pub fn new() -> Self {
        Self::default()
    }

    /// A program of this version instead of the system's.
    pub fn edition(mut self, edition: Edition) -> Self {
        self.edition = edition;
        self
    }

    /// With these words on its command line, such as `--appendonly yes`.
    pub fn with(mut self, options: &str) -> Self {
        self.options.extend(options.split_whitespace().map(str::to_owned));
        self
    }

    /// With a preloaded library: the environment of one of [`crate::preload`].
    pub fn preloaded(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Speaks TLS on its port, and nothing else, with the files `ca.pem`, `server.pem` and `server.key` of a folder.
    pub fn tls(mut self, folder: &Path) -> Self {
        self.tls = true;
        let files = [("ca-cert", "ca.pem"), ("cert", "server.pem"), ("key", "server.key")];
        for (option, file) in files {
            self.options.extend([format!("--tls-{option}-file"), folder.join(file).display().to_string()]);
        }
        self
    }

    /// Starts it.
    pub fn start(self) -> Server<Self> {
        Server::start(self)
    }
}

impl Recipe for Redis {
    const PROGRAM: &'static str = "redis-server";
    const PACKAGE: &'static str = "redis-server";

    fn program(&self) -> PathBuf {
        match self.edition.program() {
            Some(name) => find_in_setup(&format!("servers/{name}")),
            None => find(Self::PROGRAM, Self::PACKAGE),
        }
    }

    fn command(&self, command: &mut Command, port: u16, folder: &Path) {
        let port = port.to_string();
        let ports = if self.tls { vec!["--port", "0", "--tls-port", &port] } else { vec!["--port", &port] };
        command.args(ports).args(["--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder);
        // Before Redis 7 there was nothing to enable.
        if self.edition != Edition::Redis6 {
            command.args(["--enable-debug-command", "yes"]);
        }
        command.args(&self.options).envs(self.environment.iter().cloned());
    }

    fn ready(&self, stream: TcpStream) -> io::Result<()> {
        let answer = match ask_on(stream, &["PING"], true) {
            // Who does not speak TLS is thrown out by a server that does, once it is there.
            Err(error) if self.tls && error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            answer => answer?,
        };
        if answer.starts_with("+PONG") || answer.starts_with("-NOAUTH") {
            return Ok(());
        }
        Err(io::Error::other(answer))
    }
}

/// A kind of server that is spoken to as Redis is.
pub trait SpeaksRedis: Recipe {
    /// It knows QUIT, which ends what is read.
    const QUITS: bool;
}

impl SpeaksRedis for Redis {
    const QUITS: bool = true;
}

impl<R: SpeaksRedis> Server<R> {
    /// Sends a command over a connection of its own and answers the raw reply: for what a test does behind our back.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn ask(&self, words: &[&str]) -> String {
        let stream = TcpStream::connect(self.address()).expect("the server is up");
        ask_on(stream, words, R::QUITS).expect("the server answers")
    }

    /// Like [`Server::ask`], but only what is in the reply, flat: nothing for a null, one word for a text or a number,
    /// all of them for an array. An error is one word that starts with `-`.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn words(&self, words: &[&str]) -> Vec<String> {
        let reply = self.ask(words);
        let mut lines = reply.split("\r\n");
        let mut found = Vec::new();
        while let Some(line) = lines.next() {
            match line.split_at_checked(1) {
                Some(("*", _)) | Some(("$", "-1")) | None => {}
                Some(("$", _)) => found.push(lines.next().unwrap_or_default().to_owned()),
                Some((":" | "+", word)) => found.push(word.to_owned()),
                Some(_) => found.push(line.to_owned()),
            }
        }
        found
    }

    /// The one word of a reply; `None` for a null.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn word(&self, words: &[&str]) -> Option<String> {
        self.words(words).into_iter().next()
    }

    /// The number in a reply.
    ///
    /// # Panics
    /// If there is none.
    pub fn number(&self, words: &[&str]) -> i64 {
        let word = self.word(words).unwrap_or_default();
        word.parse().unwrap_or_else(|_| panic!("{words:?} was answered with {word:?}, which is no number"))
    }

    /// All keys, in order.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.words(&["KEYS", "*"]);
        keys.sort_unstable();
        keys
    }
}

/// Sends a command to the Redis server at `HOST:PORT` and answers the raw reply: for a process that has not started it.
pub fn ask(address: &str, words: &[&str]) -> io::Result<String> {
    ask_on(TcpStream::connect(address)?, words, true)
}

pub(crate) fn ask_on(mut stream: TcpStream, words: &[&str], quits: bool) -> io::Result<String> {
    let mut command = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| command += &format!("${}\r\n{word}\r\n", word.len()));
    // The reply to QUIT ends what is read; or else the server, which sees that nothing more will come.
    if quits {
        command += "*1\r\n$4\r\nQUIT\r\n";
    }
    stream.write_all(command.as_bytes())?;
    if !quits {
        stream.shutdown(Shutdown::Write)?;
    }
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let last = if quits { "+OK\r\n" } else { "" };
    Ok(reply.strip_suffix(last).unwrap_or(&reply).trim_end().to_owned())
}
