//! Replicas of the service, and a plain HTTP client: a socket, and what goes over it.
#![allow(dead_code, reason = "each test program uses its part")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::Duration;

use fencepost_core::{Blocking as _, Connect};
use fencepost_server::Settings;
pub(crate) use fencepost_testkit::wait::{PATIENCE, until};
use serde_json::Value;
use tokio::sync::oneshot;

/// A service on a port of its own.
pub(crate) struct Replica {
    pub(crate) address: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Replica {
    /// In front of this store.
    pub(crate) fn of(connect: Connect) -> Self {
        Self::with(connect, Settings::default().drain(Duration::from_millis(200)))
    }

    pub(crate) fn with(connect: Connect, settings: Settings) -> Self {
        let locks = connect.block().expect("the store can be reached");
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("threads").block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
                ready.send(listener.local_addr().expect("an address").to_string()).expect("somebody waits");
                let stopped = async { drop(stopped.await) };
                settings.run(listener, locks, stopped).await.expect("serves");
            });
        });
        let address = address.recv().expect("it listens");
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    /// Ends it, and waits until it has.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends well");
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        Open::send(&self.address, "POST", path, &[], Some(body)).answer()
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        Open::send(&self.address, "PUT", path, &[], Some(body)).answer()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        Open::send(&self.address, "GET", path, &[], None).answer()
    }

    pub(crate) fn open(&self, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Open {
        Open::send(&self.address, if body.is_some() { "POST" } else { "GET" }, path, headers, body)
    }

    /// Waits until so many are in line.
    pub(crate) fn await_waiters(&self, name: &str, count: usize) {
        until("waiters in line", || {
            self.get(&format!("/v1/locks/{name}")).body["waiters"].as_array().map(Vec::len) == Some(count)
        });
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Answer {
    /// The body of a success.
    #[track_caller]
    pub(crate) fn good(self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.body
    }

    /// A problem with this status and this code.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert!(self.head.to_lowercase().contains("content-type: application/problem+json"), "{self:?}");
        self.body
    }
}

/// A request whose answer has not been read. Dropped, its connection is cut.
pub(crate) struct Open(BufReader<TcpStream>);

impl Open {
    fn send(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Self {
        let mut stream = TcpStream::connect(address).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = body.map(Value::to_string);
        if let Some(body) = &body {
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        let all = format!("{head}\r\n{}", body.unwrap_or_default());
        stream.write_all(all.as_bytes()).expect("sent");
        Self(BufReader::new(stream))
    }

    /// The whole answer.
    pub(crate) fn answer(mut self) -> Answer {
        let head = self.head();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut body = String::new();
        self.0.read_to_string(&mut body).expect("an answer");
        Answer { status, head, body: serde_json::from_str(&body).unwrap_or(Value::String(body)) }
    }

    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).expect("a head") > 0, "the connection ended: {head}");
        }
        head
    }

    /// The next event of a stream: its kind, its data and its id.
    pub(crate) fn event(&mut self) -> (String, Value, String) {
        let (mut kind, mut data, mut id) = (String::new(), Value::Null, String::new());
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("an event") > 0, "the stream ended");
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("event: ") {
                text.clone_into(&mut kind);
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = serde_json::from_str(text).expect("JSON");
            } else if let Some(text) = line.strip_prefix("id: ") {
                text.clone_into(&mut id);
            } else if line.is_empty() && !kind.is_empty() {
                return (kind, data, id);
            }
        }
    }
}
