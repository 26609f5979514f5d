//! A wire that we can cut: a relay on loopback before one server, for one client.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What becomes of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    /// They pass.
    Pass,
    /// They are kept, and pass later: nobody is told that the wire is dead.
    Silent,
    /// Connections are closed, and new ones too.
    Closed,
}

/// A relay. Ends when dropped.
#[derive(Debug)]
pub(super) struct Relay {
    port: u16,
    wire: Arc<Wire>,
}

#[derive(Debug)]
struct Wire {
    server: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    flow: Flow,
    ended: bool,
    next: u64,
    /// Both ends of each connection. Shared, not cloned: each clone is one more open file.
    open: HashMap<u64, [Arc<TcpStream>; 2]>,
}

impl Relay {
    /// Starts one before `HOST:PORT`.
    pub(super) fn before(server: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let state = State { flow: Flow::Pass, ended: false, next: 0, open: HashMap::new() };
        let wire = Arc::new(Wire { server: server.to_owned(), state: Mutex::new(state), changed: Condvar::new() });
        let accepting = wire.clone();
        let accept = move || {
            for client in listener.incoming() {
                if accepting.state().ended {
                    return;
                }
                let Ok(client) = client else { continue };
                // A server that cannot be reached may take its time, and others shall not wait for that.
                let wire = accepting.clone();
                let _ = thread::Builder::new().name("relay".into()).spawn(move || wire.join(client));
            }
        };
        thread::Builder::new().name("relay".into()).spawn(accept)?;
        Ok(Self { port, wire })
    }

    /// `127.0.0.1:PORT`.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What becomes of bytes from now on.
    pub(super) fn set(&self, flow: Flow) {
        let mut state = self.wire.state();
        state.flow = flow;
        if flow == Flow::Closed {
            state.close_all();
        }
        self.wire.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut state = self.wire.state();
        state.ended = true;
        state.close_all();
        drop(state);
        self.wire.changed.notify_all();
        // Wakes the one who accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn close_all(&mut self) {
        self.open.drain().flat_map(|(_, ends)| ends).for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries one connection until it ends. A client that is not let in sees its connection closed.
    fn join(self: &Arc<Self>, client: TcpStream) {
        if self.state().flow == Flow::Closed {
            return;
        }
        let Ok(server) = TcpStream::connect(&self.server) else { return };
        let (client, server) = (Arc::new(client), Arc::new(server));
        let kept = [client.clone(), server.clone()];
        for end in &kept {
            let _ = end.set_nodelay(true);
        }
        let number = {
            let mut state = self.state();
            // It may have been cut while we were connecting.
            if state.ended || state.flow == Flow::Closed {
                return;
            }
            state.next += 1;
            let number = state.next;
            state.open.insert(number, kept);
            number
        };
        let (wire, from, to) = (self.clone(), server.clone(), client.clone());
        let back = thread::Builder::new().name("relay".into()).spawn(move || wire.pump(&from, &to));
        self.pump(&client, &server);
        if let Ok(back) = back {
            let _ = back.join();
        }
        self.state().open.remove(&number);
    }

    fn pump(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if !self.passes() || to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Waits while bytes are kept; `false`: the wire is cut.
    fn passes(&self) -> bool {
        let kept = |state: &mut State| state.flow == Flow::Silent && !state.ended;
        let state = self.changed.wait_while(self.state(), kept).unwrap_or_else(PoisonError::into_inner);
        state.flow == Flow::Pass && !state.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says everything back.
    fn echo() -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                thread::spawn(move || io::copy(&mut &client, &mut &client));
            }
        });
        address
    }

    fn said_back(stream: &mut TcpStream, word: &[u8]) -> io::Result<bool> {
        stream.write_all(word)?;
        let mut heard = vec![0; word.len()];
        stream.read_exact(&mut heard)?;
        Ok(heard == word)
    }

    #[test]
    fn a_relay_carries_both_ways_until_it_is_cut_and_again_when_it_is_healed() {
        let relay = Relay::before(&echo()).expect("a relay");
        let mut stream = TcpStream::connect(relay.address()).expect("let in");
        assert!(said_back(&mut stream, b"one").expect("carried"));
        relay.set(Flow::Closed);
        assert!(said_back(&mut stream, b"two").is_err());
        let mut refused = TcpStream::connect(relay.address()).expect("the relay itself is there");
        assert!(said_back(&mut refused, b"three").is_err());
        relay.set(Flow::Pass);
        let mut again = TcpStream::connect(relay.address()).expect("let in");
        assert!(said_back(&mut again, b"four").expect("carried"));
    }

    #[test]
    fn what_is_said_into_silence_arrives_when_it_ends() {
        let relay = Relay::before(&echo()).expect("a relay");
        let mut stream = TcpStream::connect(relay.address()).expect("let in");
        assert!(said_back(&mut stream, b"one").expect("carried"));
        relay.set(Flow::Silent);
        stream.write_all(b"two").expect("kept");
        relay.set(Flow::Pass);
        let mut heard = [0; 3];
        stream.read_exact(&mut heard).expect("it comes");
        assert_eq!(&heard, b"two");
    }
}
