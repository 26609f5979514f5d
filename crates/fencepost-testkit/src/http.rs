//! A plain HTTP client that keeps its connection: a socket, and what goes over it.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection, one request after another.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    address: String,
    /// What is sent, and what came: kept, so that nobody measures the allocator of the client.
    sent: Vec<u8>,
    came: Vec<u8>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// Such as 200.
    pub status: u16,
    /// As text.
    pub body: String,
}

impl Answer {
    /// The body of a success; anything else is an error with all that came.
    pub fn good(self) -> io::Result<String> {
        match self.status {
            200 => Ok(self.body),
            status => Err(io::Error::other(format!("{status}: {}", self.body))),
        }
    }
}

impl Client {
    /// To `host:port`.
    pub async fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address: address.to_owned(), sent: Vec::new(), came: Vec::with_capacity(1024) })
    }

    /// Asks for this.
    pub async fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.ask("GET", path, "").await
    }

    /// Sends this JSON.
    pub async fn post(&mut self, path: &str, body: &str) -> io::Result<Answer> {
        self.ask("POST", path, body).await
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        use std::io::Write;
        self.sent.clear();
        let (address, length) = (&self.address, body.len());
        write!(self.sent, "{method} {path} HTTP/1.1\r\nhost: {address}\r\n")?;
        if method == "POST" {
            write!(self.sent, "content-type: application/json\r\ncontent-length: {length}\r\n")?;
        }
        write!(self.sent, "\r\n{body}")?;
        self.stream.write_all(&self.sent).await?;
        self.came.clear();
        let head = loop {
            if let Some(end) = self.came.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.read().await?;
        };
        let (status, length) = understood(&self.came[..head])?;
        while self.came.len() < head + length {
            self.read().await?;
        }
        Ok(Answer { status, body: String::from_utf8_lossy(&self.came[head..head + length]).into_owned() })
    }

    async fn read(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.came).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The status, and how long the body is.
fn understood(head: &[u8]) -> io::Result<(u16, usize)> {
    let head = String::from_utf8_lossy(head);
    let strange = || io::Error::other(format!("no answer of known length: {head}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(strange)?;
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let length = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).map(|(_, value)| value.trim());
    let length = length.filter_map(|value| value.parse().ok()).next().ok_or_else(strange)?;
    Ok((status, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_status_and_a_length() {
        let head = b"HTTP/1.1 423 Locked\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(understood(head).expect("both"), (423, 12));
        assert!(understood(b"HTTP/1.1 200 OK\r\n\r\n").expect_err("no length").to_string().contains("200 OK"));
    }
}
