//! Fencepost on SQLite: the embedded default. One file, no server.
//!
//! The parts, in reading order:
//! - `store`: [`Sqlite`], what the engine sees; it only puts steps into a queue;
//! - `queue`: the steps that wait to be run, and who listens;
//! - `worker`: the thread that runs them, many per commit;
//! - `sight`: what a waiter finds when it looks at its lock;
//! - `shelf`: the rows of one lock, as `fencepost_core::store::table` wants them;
//! - `database`: the file, its schema and the gate that lets one writer in at a time;
//! - `presence`: whether another process has the file open;
//! - `wake`: how one process tells another that the lock is theirs;
//! - [`fence`]: the check at a resource that is in SQLite too;
//! - `doctor`: what can go wrong with such a file;
//! - `path`, `error`: where the file may be, and what to say when something is wrong.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("locks.db");
//! use fencepost_core::Blocking;
//!
//! let locks = fencepost_sqlite::connect(path.to_str().expect("UTF-8")).block()?;
//! let guard = locks.lock("nightly").acquire().block()?;
//! println!("mine, under token {}", guard.token());
//! guard.release().block()?;
//! # Ok(())
//! # }
//! ```

mod database;
mod doctor;
mod error;
pub mod fence;
mod gate;
mod path;
mod presence;
mod queue;
mod shelf;
mod sight;
mod store;
mod wake;
mod worker;

pub use doctor::examine;
pub use store::Sqlite;

use std::future::ready;
use std::sync::Arc;

use fencepost_core::Connect;
use fencepost_core::store::{Store, connect_again};

/// Connects to the locks in a file, which is created on first use.
///
/// An empty path means `$XDG_STATE_HOME/fencepost/locks.db`, else `~/.local/state/fencepost/locks.db`; the folders
/// are created too. A file that cannot be used is reported when the answer is awaited.
pub fn connect(path: &str) -> Connect {
    let path = path.to_owned();
    connect_again(move |opening| {
        let opened = Sqlite::open(&path, opening.clock).map(|store| vec![Arc::new(store) as Arc<dyn Store>]);
        Box::pin(ready(opened))
    })
}
