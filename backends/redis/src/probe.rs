//! One server, asked one thing after the other: for looking at it before anybody relies on it.

use std::io;
use std::time::{Duration, Instant};

use fencepost_core::store::{StoreErrorKind, Trouble};

use crate::error;
use crate::greeting;
use crate::socket::{self, Socket};
use crate::url::Node;
use crate::wire::{self, Value};

/// Connecting and every answer may take so long.
const WITHIN: Duration = Duration::from_secs(2);

/// A connection that blocks.
pub(crate) struct Probe {
    socket: Socket,
    input: Vec<u8>,
}

impl Probe {
    /// Connects, and says who we are.
    pub(crate) fn open(node: &Node) -> Result<Self, Trouble> {
        let place = socket::look_up(node.door()).map_err(|error| socket::trouble(&error))?;
        let socket = Socket::blocking(&place, node.tls.as_ref(), WITHIN).map_err(|error| socket::trouble(&error))?;
        let mut probe = Self { socket, input: Vec::new() };
        let mut hello = Vec::new();
        greeting::hello(&mut hello, node, None);
        match probe.exchange(&hello)? {
            Value::Error(text) => Err(greeting::refused(&text)),
            _ => Ok(probe),
        }
    }

    /// Sends a command and waits for its reply, which may be an error of the server.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Value, Trouble> {
        let mut command = Vec::new();
        wire::write(&mut command, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        self.exchange(&command)
    }

    /// The same, of a command that has to be done.
    pub(crate) fn get(&mut self, words: &[&str]) -> Result<Value, Trouble> {
        match self.ask(words)? {
            Value::Error(text) => Err(error::trouble(&text)),
            value => Ok(value),
        }
    }

    fn exchange(&mut self, command: &[u8]) -> Result<Value, Trouble> {
        let deadline = Instant::now() + WITHIN;
        self.send(command, deadline).and_then(|()| self.receive(deadline)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Trouble::new(StoreErrorKind::TooSlow, format!("no answer within {WITHIN:?}"))
            }
            _ if self.input.is_empty() => self.socket.broken_off(&error, &self.input),
            _ => socket::trouble(&error),
        })
    }

    fn send(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = patiently(deadline, || self.socket.write(bytes))?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn receive(&mut self, deadline: Instant) -> io::Result<Value> {
        let mut piece = [0; 16 * 1024];
        loop {
            if let Some((value, length)) = wire::parse(&self.input).map_err(io::Error::other)? {
                self.input.drain(..length);
                return Ok(value);
            }
            match patiently(deadline, || self.socket.read(&mut piece))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.input.extend_from_slice(&piece[..count]),
            }
        }
    }
}

/// Again, if nothing could be done yet and there is time left: TLS says so while it is being agreed on.
fn patiently(deadline: Instant, mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {}
            done => return done,
        }
    }
}
