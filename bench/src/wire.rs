//! A plain socket to a Redis server, for floors and for what is done beside a contest.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::Outcome;

pub(crate) struct Link(TcpStream);

impl Link {
    pub(crate) fn connect(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Answers the script's hash.
    pub(crate) fn load(&mut self, script: &str) -> Outcome<String> {
        let reply = self.ask(&["SCRIPT", "LOAD", script])?;
        Ok(reply.lines().nth(1).ok_or("no hash")?.to_owned())
    }

    /// For replies that are short enough to come in one piece.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Outcome<String> {
        self.write(&command(words))?;
        let mut reply = [0; 256];
        let length = self.0.read(&mut reply)?;
        let text = String::from_utf8_lossy(&reply[..length]).into_owned();
        if text.starts_with('-') { Err(text.into()) } else { Ok(text) }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        Ok(self.0.write_all(bytes)?)
    }

    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Outcome<()> {
        Ok(self.0.read_exact(bytes)?)
    }
}

/// A command in the protocol of Redis.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| text += &format!("${}\r\n{word}\r\n", word.len()));
    text.into_bytes()
}
