//! The check at a file: replaced in one step, unless a newer token was here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{FenceError, Stale};
use crate::token::FencingToken;

/// Digits of a token in the side file, all of them, so that a shorter one leaves nothing of a longer one behind.
const DIGITS: usize = 16;

/// Replaces a file in one step, unless a newer token was seen. Others see the old content or the new, never a part.
///
/// The newest token is in `PATH.fencing-token`, which also keeps writers apart while one of them checks and replaces. It is
/// on disk before the new content is: after a crash the file may be the old one, which only this holder or a newer one
/// can replace. For local disks: the lock on the side file means nothing on some network file systems.
///
/// # Errors
/// [`FenceError::Stale`]; or what the system said of a file, with its path. A side file that has no token in it is an
/// error, not an invitation.
pub fn replace_file(path: impl AsRef<Path>, content: &[u8], token: FencingToken) -> Result<(), FenceError> {
    let path = path.as_ref();
    let (side_path, new_path) = (beside(path, "fencing-token"), beside(path, "fencing-new"));
    let told = |path: &Path| {
        let path = path.display().to_string();
        move |source: io::Error| FenceError::File { path, source }
    };
    let mut options = OpenOptions::new();
    let side = options.read(true).write(true).create(true).truncate(false).open(&side_path);
    let mut side = side.map_err(told(&side_path))?;
    side.lock().map_err(told(&side_path))?;
    let seen = seen(&mut side).map_err(told(&side_path))?;
    if let Some(seen) = seen.filter(|seen| *seen > token) {
        return Err(Stale { token, seen }.into());
    }
    remember(&mut side, token).map_err(told(&side_path))?;
    write_new(&new_path, content).map_err(told(&new_path))?;
    fs::rename(&new_path, path).map_err(told(path))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(told(folder))
    // Dropped, and with it the lock.
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn seen(side: &mut File) -> io::Result<Option<FencingToken>> {
    let mut text = String::new();
    side.read_to_string(&mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    let token = text.trim_end().trim_start_matches('0').parse();
    token.map(Some).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it has no token in it; who wrote to it?"))
}

fn remember(side: &mut File, token: FencingToken) -> io::Result<()> {
    side.seek(SeekFrom::Start(0))?;
    writeln!(side, "{:0DIGITS$}", token.as_u64())?;
    side.sync_all()
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = File::create(path)?;
    new.write_all(content)?;
    new.sync_all()
}
