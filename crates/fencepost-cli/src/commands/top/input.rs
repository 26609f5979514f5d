//! Keys as they are pressed, read on a thread of their own.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;

use super::keys::{Decoder, Key};

/// The rest of a key comes within this time, also over a slow link; Escape alone is known after it.
const REST_WITHIN_MS: u16 = 50;

/// Tells every key, until nobody listens. `None`: the terminal is gone.
pub(super) fn listen(tell: impl Fn(Option<Key>) -> bool + Send + 'static) -> io::Result<()> {
    let listen = move || {
        let mut decoder = Decoder::default();
        loop {
            let keys = match next(&mut decoder) {
                Ok(keys) => keys,
                Err(_) => {
                    tell(None);
                    return;
                }
            };
            if !keys.into_iter().all(|key| tell(Some(key))) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("top: keys".into()).spawn(listen)?;
    Ok(())
}

/// The keys that come next.
fn next(decoder: &mut Decoder) -> io::Result<Vec<Key>> {
    let stdin = io::stdin();
    let patience = if decoder.is_undecided() { PollTimeout::from(REST_WITHIN_MS) } else { PollTimeout::NONE };
    let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    match poll(&mut ready, patience) {
        Ok(0) => return Ok(decoder.settle().into_iter().collect()),
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let mut bytes = [0; 256];
    // Past the buffer of the standard library: what it held back, no poll would tell.
    match read(stdin.as_fd(), &mut bytes) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(decoder.feed(&bytes[..count])),
        Err(Errno::EINTR) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
