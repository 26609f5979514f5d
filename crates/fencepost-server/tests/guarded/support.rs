//! A service of a test's own on a real socket, and a client that says exactly what it is told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use fencepost_core::store::{Memory, connect};
use fencepost_core::{Blocking, Locks};
use fencepost_server::auth::{ApiKey, key_entry};
use fencepost_server::{Limits, Metrics, Settings};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A service in a thread of its own, stopped when dropped.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Locks in memory, told to these metrics.
pub(crate) fn memory(metrics: &Metrics) -> Locks {
    let connecting = connect(|opening| Ok(vec![Memory::new(opening.clock)]));
    connecting.observer(metrics.clone()).block().expect("a store")
}

impl Service {
    pub(crate) fn start(settings: Settings) -> Self {
        let metrics = Metrics::new();
        Self::on(memory(&metrics), settings.metrics(metrics))
    }

    pub(crate) fn on(locks: Locks, settings: Settings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (shutdown, told) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let stop = async { drop(told.await) };
            runtime.block_on(settings.run(listener, locks, stop)).expect("served");
        });
        Self { address, shutdown: Some(shutdown), thread: Some(thread) }
    }

    /// Begins the end.
    pub(crate) fn stop(&mut self) {
        drop(self.shutdown.take());
    }

    /// Waits for the end; a panic inside is one here.
    pub(crate) fn ended(mut self) {
        self.stop();
        self.thread.take().expect("BUG: ended once").join().expect("no panic");
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream
    }

    pub(crate) fn get(&self, path: &str, key: Option<&str>) -> Answer {
        Request::new("GET", path).key(key).send(self)
    }

    pub(crate) fn post(&self, path: &str, key: Option<&str>, body: &str) -> Answer {
        Request::new("POST", path).key(key).body(body).send(self)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the service panicked");
        }
    }
}

/// A request, as bytes.
pub(crate) struct Request {
    head: String,
    host: String,
    body: String,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        let head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        Self { head, host: "localhost".into(), body: String::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head += &format!("{name}: {value}\r\n");
        self
    }

    pub(crate) fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    pub(crate) fn key(self, key: Option<&str>) -> Self {
        match key {
            Some(key) => self.header("authorization", &format!("Bearer {key}")),
            None => self,
        }
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self.header("content-type", "application/json")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Self { head, host, body } = self;
        format!("{head}host: {host}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    pub(crate) fn send(&self, service: &Service) -> Answer {
        self.send_over(&mut service.connect())
    }

    pub(crate) fn send_over(&self, stream: &mut (impl Read + Write)) -> Answer {
        stream.write_all(&self.bytes()).expect("sent");
        Answer::read(stream)
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Reads until the other side closes.
    pub(crate) fn read(stream: &mut impl Read) -> Self {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        loop {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => bytes.extend(&piece[..length]),
                // Whoever closes with unread bytes of ours resets the connection; what came before counts.
                Err(error) if !bytes.is_empty() => {
                    assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no end of the answer");
                    break;
                }
                Err(error) => panic!("no answer: {error}"),
            }
        }
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_else(|| panic!("no code: {self:?}")).to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Default settings but for these limits.
pub(crate) fn limited(change: impl FnOnce(&mut Limits)) -> Settings {
    let mut limits = Limits::default();
    change(&mut limits);
    Settings::default().limits(limits)
}

/// A folder with credentials.
pub(crate) struct Files {
    folder: TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::with_prefix("fencepost-service-").expect("a folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As a careful operator writes: nobody sees half a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let (path, draft) = (self.path(name), self.path(&format!("{name}.new")));
        std::fs::write(&draft, text).expect("a file");
        std::fs::rename(draft, &path).expect("a file");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file")
    }
}

/// A new key with these rights: the secret, and its entry.
pub(crate) fn key(principal: &str, allow: &[&str]) -> (String, String) {
    let key = ApiKey::random().expect("random");
    let scopes: Vec<_> = allow.iter().map(|scope| scope.parse().expect("a scope")).collect();
    let entry = key_entry(principal, &key.digest(), &scopes).expect("an entry");
    (key.expose().to_owned(), entry)
}
