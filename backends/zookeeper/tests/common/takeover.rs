//! Sessions that end behind their owners' backs: whoever has heard a session's number and password can end it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use fencepost_testkit::proxy::Proxy;
use fencepost_testkit::wait::until;

/// The first message on a connection: its length, a version of zero, what was seen last (8 bytes), a timeout, and then the
/// session and its password behind their length.
const HELLO: usize = 4 + 45;
const SESSION: std::ops::Range<usize> = 20..28;
/// The last message of a session: a number, and the request to close it.
const FAREWELL: [u8; 12] = [0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5];

/// What a client says behind this proxy when it comes back: at least so many sessions.
fn comebacks(proxy: &Proxy, sessions: usize) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut said = Vec::new();
    proxy.take_forwarded();
    proxy.cut();
    until("the client comes back", || {
        said.extend(proxy.take_forwarded());
        let hellos = said.windows(HELLO).filter(|window| window.starts_with(&[0, 0, 0, 45, 0, 0, 0, 0]));
        found = hellos.filter(|hello| hello[SESSION].iter().any(|byte| *byte != 0)).map(<[u8]>::to_vec).collect();
        found.sort_by(|one, other| one[SESSION].cmp(&other[SESSION]));
        found.dedup_by(|one, other| one[SESSION] == other[SESSION]);
        found.len() >= sessions
    });
    found
}

/// Ends the sessions of the client behind a proxy, of which there are so many.
pub(crate) fn end_sessions(proxy: &Proxy, server: &str, sessions: usize) {
    for hello in comebacks(proxy, sessions) {
        // The client may take it back before it is closed; then it is done once more, until there is no such session.
        until("the session is over", || {
            let asked = TcpStream::connect(server).and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_secs(5)))?;
                stream.write_all(&hello)?;
                let mut welcome = [0; 12];
                stream.read_exact(&mut welcome)?;
                stream.write_all(&FAREWELL)?;
                // It hangs up when it has closed the session.
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest)?;
                Ok(welcome[8..].iter().all(|byte| *byte == 0))
            });
            asked.unwrap_or(false)
        });
    }
}
