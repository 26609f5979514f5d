//! Real Redis servers.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::server::{Recipe, Server};

/// How a Redis server is started: without persistence unless told.
#[derive(Clone, Debug, Default)]
pub struct Redis {
    options: Vec<String>,
}

impl Redis {
    /// A server that forgets everything when it ends.
    pub fn new() -> Self {
        Self::default()
    }

    /// With these words on its command line, such as `--appendonly yes`.
    pub fn with(mut self, options: &str) -> Self {
        self.options.extend(options.split_whitespace().map(str::to_owned));
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

    fn command(&self, command: &mut Command, port: u16, folder: &Path) {
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder);
        command.args(["--enable-debug-command", "yes"]).args(&self.options);
    }

    fn ready(&self, stream: TcpStream) -> io::Result<()> {
        let answer = ask_on(stream, &["PING"])?;
        if answer.starts_with("+PONG") || answer.starts_with("-NOAUTH") {
            return Ok(());
        }
        Err(io::Error::other(answer))
    }
}

impl Server<Redis> {
    /// Sends a command over a connection of its own and answers the raw reply: for what a test does behind our back.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn ask(&self, words: &[&str]) -> String {
        let stream = TcpStream::connect(self.address()).expect("the server is up");
        ask_on(stream, words).expect("the server answers")
    }
}

fn ask_on(mut stream: TcpStream, words: &[&str]) -> io::Result<String> {
    let mut command = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| command += &format!("${}\r\n{word}\r\n", word.len()));
    // The reply to QUIT ends what is read.
    command += "*1\r\n$4\r\nQUIT\r\n";
    stream.write_all(command.as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply.trim_end_matches("+OK\r\n").trim_end().to_owned())
}
