//! Carries spans to the collector: one request, one connection, on the thread of the exporter.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

/// A collector says little.
const ANSWER_MAX: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Sender {
    patience: Duration,
    /// The last attempt failed: that is told once, not each second.
    fails: AtomicBool,
}

impl Sender {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, fails: AtomicBool::new(false) }
    }

    fn send(&self, request: &Request<Bytes>) -> io::Result<Response<Bytes>> {
        let host = request.uri().host().unwrap_or_default();
        let port = request.uri().port_u16().unwrap_or(80);
        let address = (host.trim_matches(['[', ']']), port).to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("the collector's host has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, self.patience)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let mut head = format!("{} {path} HTTP/1.1\r\nhost: {host}:{port}\r\n", request.method()).into_bytes();
        write!(head, "connection: close\r\ncontent-length: {}\r\n", request.body().len())?;
        let own = ["host", "connection", "content-length"];
        for (name, value) in request.headers().iter().filter(|(name, _)| !own.contains(&name.as_str())) {
            head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        head.extend(b"\r\n");
        stream.write_all(&head)?;
        stream.write_all(request.body())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let status = String::from_utf8_lossy(line).split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        let status = status.ok_or_else(|| io::Error::other("the collector did not answer in HTTP"))?;
        Response::builder().status(status).body(Bytes::new()).map_err(io::Error::other)
    }
}

#[async_trait]
impl HttpClient for Sender {
    // Blocks, as it may: the exporter has a thread of its own.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.send(&request);
        let why = match &sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(response.status().to_string()),
            Err(error) => Some(error.to_string()),
        };
        let failed = self.fails.swap(why.is_some(), Ordering::Relaxed);
        match why {
            Some(why) if !failed => tracing::warn!(collector = %request.uri(), why, "spans are not taken, and dropped"),
            None if failed => tracing::info!(collector = %request.uri(), "spans are taken again"),
            _ => {}
        }
        Ok(sent?)
    }
}
