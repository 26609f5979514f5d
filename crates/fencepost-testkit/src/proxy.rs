//! A wire that can be cut: a TCP proxy on loopback, faulty per direction.
//!
//! It stands between a client and a real server. Requests and replies each pass, are held back, come late or get lost;
//! [`Proxy::cut`] ends what is open, [`Proxy::close`] lets nobody in any more, [`Proxy::reset_after`] breaks off at any
//! byte. What went to the server can be read, to know that something is under way, or to send it once more.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::connect_unspec;

/// What becomes of bytes in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// They pass.
    Pass,
    /// They pass, so much later.
    Late(Duration),
    /// They are kept until this changes: a black hole, until it is healed.
    Held,
    /// They are gone for good, and so is everything after them on the same connection: a stream has no gaps.
    Lost,
}

/// A proxy in front of one server. Ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    wire: Arc<Wire>,
}

#[derive(Debug)]
struct Wire {
    server: String,
    ended: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    requests: Flow,
    replies: Flow,
    open: bool,
    streams: Vec<TcpStream>,
    forwarded: Vec<u8>,
    /// How many bytes pass in this direction before all connections are reset.
    reset: Option<(Direction, usize)>,
    /// Clients that are told apart, by their address, with what becomes of their requests and replies.
    clients: Vec<(IpAddr, Flow, Flow)>,
}

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the server.
    Requests,
    /// To the client.
    Replies,
}

impl Proxy {
    /// Starts one in front of `HOST:PORT`.
    ///
    /// # Panics
    /// If there is no port for it.
    pub fn before(server: impl Into<String>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let state = State {
            requests: Flow::Pass,
            replies: Flow::Pass,
            open: true,
            streams: Vec::new(),
            forwarded: Vec::new(),
            reset: None,
            clients: Vec::new(),
        };
        let (ended, state) = (AtomicBool::new(false), Mutex::new(state));
        let wire = Arc::new(Wire { server: server.into(), ended, state, changed: Condvar::new() });
        let accepting = wire.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ended.load(Ordering::SeqCst) {
                    return;
                }
                // A client that is not let in sees its connection closed.
                if let Ok(client) = client {
                    accepting.join(client);
                }
            }
        });
        Self { port, wire }
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What becomes of bytes on their way to the server from now on.
    pub fn requests(&self, flow: Flow) {
        self.wire.state().requests = flow;
        self.wire.changed.notify_all();
    }

    /// What becomes of bytes on their way to the client from now on.
    pub fn replies(&self, flow: Flow) {
        self.wire.state().replies = flow;
        self.wire.changed.notify_all();
    }

    /// What becomes of the requests and replies of the client at this address, from now on.
    pub fn flows_of(&self, client: IpAddr, requests: Flow, replies: Flow) {
        let mut state = self.wire.state();
        state.clients.retain(|(other, ..)| *other != client);
        state.clients.push((client, requests, replies));
        self.wire.changed.notify_all();
    }

    /// So many bytes pass in this direction from now on, of all connections together; then all are reset, once.
    pub fn reset_after(&self, direction: Direction, bytes: usize) {
        self.wire.state().reset = Some((direction, bytes));
    }

    /// Whether a [reset](Self::reset_after) is still to come. Takes it back.
    pub fn take_reset(&self) -> bool {
        self.wire.state().reset.take().is_some()
    }

    /// Closes all connections. What was handed to the server before is still read by it.
    pub fn cut(&self) {
        self.wire.cut();
    }

    /// Closes all connections and lets nobody in: for the server, the clients are gone.
    pub fn close(&self) {
        self.wire.state().open = false;
        self.cut();
    }

    /// Lets clients in again.
    pub fn reopen(&self) {
        self.wire.state().open = true;
    }

    /// Everything that was handed to the server since the last time this was asked.
    pub fn take_forwarded(&self) -> Vec<u8> {
        std::mem::take(&mut self.wire.state().forwarded)
    }

    /// How often this was handed to the server since [`Proxy::take_forwarded`].
    pub fn forwarded(&self, bytes: &[u8]) -> usize {
        self.wire.state().forwarded.windows(bytes.len()).filter(|window| *window == bytes).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.wire.ended.store(true, Ordering::SeqCst);
        self.close();
        // Wakes the one who accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, client: TcpStream) {
        let mut state = self.state();
        if !state.open {
            return;
        }
        let Ok(server) = TcpStream::connect(&self.server) else { return };
        let owner = client.peer_addr().ok().map(|address| address.ip());
        for (from, to, direction) in [(&client, &server, Direction::Requests), (&server, &client, Direction::Replies)] {
            let (Ok(from), Ok(to), wire) = (from.try_clone(), to.try_clone(), self.clone()) else { return };
            let _ = to.set_nodelay(true);
            thread::spawn(move || wire.pump(from, to, direction, owner));
        }
        state.streams.extend([client, server]);
    }

    fn cut(&self) {
        let streams = std::mem::take(&mut self.state().streams);
        streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        self.changed.notify_all();
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, direction: Direction, owner: Option<IpAddr>) {
        let mut buffer = [0; 16 * 1024];
        let mut lost = false;
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let flow = if lost { Some(Flow::Lost) } else { self.flow(direction, owner) };
            lost = flow == Some(Flow::Lost);
            if !self.carry(&buffer[..count], flow, &mut to, direction) {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    /// `false`: the wire is cut.
    fn carry(&self, bytes: &[u8], flow: Option<Flow>, to: &mut TcpStream, direction: Direction) -> bool {
        match flow {
            None => return false,
            Some(Flow::Lost) => return true,
            Some(Flow::Late(delay)) => thread::sleep(delay),
            Some(Flow::Pass | Flow::Held) => {}
        }
        let passes = self.passes(bytes.len(), direction);
        if to.write_all(&bytes[..passes]).is_err() {
            return false;
        }
        if direction == Direction::Requests {
            self.state().forwarded.extend_from_slice(&bytes[..passes]);
        }
        if passes < bytes.len() {
            self.reset();
        }
        passes == bytes.len()
    }

    /// How many of so many bytes pass before the reset.
    fn passes(&self, count: usize, direction: Direction) -> usize {
        let mut state = self.state();
        match &mut state.reset {
            Some((of, left)) if *of == direction => {
                let passes = count.min(*left);
                *left -= passes;
                if passes < count {
                    state.reset = None;
                }
                passes
            }
            _ => count,
        }
    }

    /// Ends all connections without a farewell, on both sides.
    fn reset(&self) {
        for stream in &self.state().streams {
            let _ = connect_unspec(stream);
        }
        self.cut();
    }

    /// What to do with bytes that are here now, once they are not held back any more; `None`: the proxy has ended.
    fn flow(&self, direction: Direction, owner: Option<IpAddr>) -> Option<Flow> {
        let mut state = self.state();
        loop {
            let own = state.clients.iter().find(|client| Some(client.0) == owner);
            let (requests, replies) = own.map_or((state.requests, state.replies), |client| (client.1, client.2));
            let flow = match direction {
                Direction::Requests => requests,
                Direction::Replies => replies,
            };
            if self.ended.load(Ordering::SeqCst) {
                return None;
            }
            if flow != Flow::Held {
                return Some(flow);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
