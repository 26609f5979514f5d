//! Ports that no other test has, in this program or in another that runs at the same time.
//!
//! A server listens a while after its port was chosen: whoever looks for one meanwhile finds it free, and would take the other's
//! server for its own. So a program takes ports in blocks, each locked by a file, and gives none of them out twice.

use std::env;
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Mutex, PoisonError};

use crate::wait::until;

/// Ports in a block, and blocks in a range.
const BLOCK: u16 = 100;
const BLOCKS: u16 = 100;
/// A program that has used so many blocks begins with its first ports again: their servers have ended long since.
const OWN_BLOCKS_MAX: usize = 20;

/// For clients. Below those that the system gives to outgoing connections: one of these would take the port of a server that
/// is down for a moment.
static FOR_CLIENTS: Ports = Ports::from(12_000);
/// For what servers say among themselves.
static FOR_PEERS: Ports = Ports::from(22_000);

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    FOR_CLIENTS.next()
}

/// Ports for what servers say among themselves.
pub fn free_peer_ports(count: usize) -> Vec<u16> {
    (0..count).map(|_| FOR_PEERS.next()).collect()
}

struct Ports {
    first: u16,
    own: Mutex<Own>,
}

/// What this program has of a range.
struct Own {
    /// The first port of each block, which is ours while its file is open.
    blocks: Vec<(u16, File)>,
    /// Not given out yet.
    left: Vec<u16>,
}

impl Ports {
    const fn from(first: u16) -> Self {
        Self { first, own: Mutex::new(Own { blocks: Vec::new(), left: Vec::new() }) }
    }

    fn next(&self) -> u16 {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            while let Some(port) = own.left.pop() {
                if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                    return port;
                }
            }
            if own.blocks.len() < OWN_BLOCKS_MAX {
                let (start, file) = self.take_block();
                own.left.extend(start..start + BLOCK);
                own.blocks.push((start, file));
            } else {
                own.left = own.blocks.iter().flat_map(|(start, _)| *start..start + BLOCK).collect();
            }
        }
    }

    /// A block that no other program has.
    fn take_block(&self) -> (u16, File) {
        let folder = env::temp_dir().join("fencepost-ports");
        fs::create_dir_all(&folder).expect("a folder for all tests");
        // Other users' tests put files there too. Only its owner can allow that, and did.
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o1777));
        let mut taken = None;
        until("a block of ports is free", || {
            let turn = (RandomState::new().build_hasher().finish() % u64::from(BLOCKS)) as u16;
            taken = (0..BLOCKS).find_map(|number| {
                let start = self.first + (number + turn) % BLOCKS * BLOCK;
                // Another user's file is another user's block.
                let file = File::create(folder.join(start.to_string())).ok()?;
                file.try_lock().is_ok().then_some((start, file))
            });
            taken.is_some()
        });
        taken.expect("BUG: just taken")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_port_is_given_out_twice_and_no_block_to_two() {
        // Two ranges over the same ports are what two programs have.
        let (one, other) = (Ports::from(42_000), Ports::from(42_000));
        let ports: Vec<u16> = (0..150).flat_map(|_| [one.next(), other.next()]).collect();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), ports.len());
        let blocks = |ports: &Ports| -> HashSet<u16> {
            ports.own.lock().expect("no panic").blocks.iter().map(|(start, _)| *start).collect()
        };
        assert!(blocks(&one).is_disjoint(&blocks(&other)));
    }
}
