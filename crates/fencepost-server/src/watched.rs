//! Files that are read again when they change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use sha2::{Digest, Sha256};

/// The largest file that is read: credentials and certificates are small.
const BYTES_MAX: u64 = 4 << 20;

/// After so many looks in a row without a file, that is an error.
const BLIND_MAX: u32 = 3;

/// Makes a value of the files' content.
type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// What some files say together. A change that cannot be read leaves the last good state, and is logged.
pub(crate) struct Watched<T> {
    what: &'static str,
    paths: Vec<PathBuf>,
    parse: Parse<T>,
    current: RwLock<Arc<T>>,
    /// The content last looked at, good or not.
    seen: Mutex<[u8; 32]>,
    /// Looks in a row that found nothing to read.
    blind: AtomicU32,
}

impl<T: Send + Sync + 'static> Watched<T> {
    /// Reads the files for the first time. An error says which file, and why.
    pub(crate) fn open(
        what: &'static str,
        paths: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let files = read(&paths)?;
        let first = parse(&files).map_err(|why| format!("{}: {why}", shown(&paths)))?;
        Ok(Self {
            what,
            paths,
            parse: Box::new(parse),
            current: RwLock::new(Arc::new(first)),
            seen: Mutex::new(digest(&files)),
            blind: AtomicU32::new(0),
        })
    }

    /// What holds now.
    pub(crate) fn current(&self) -> Arc<T> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks whether the files changed; then, whether to the good. The content is compared, not a date: files are
    /// replaced in many ways.
    pub(crate) fn look(&self) -> Option<bool> {
        let files = match read(&self.paths) {
            Ok(files) => files,
            // Between two renames there may be no file for a moment; a log line per look would drown that.
            Err(why) if self.blind.fetch_add(1, Ordering::Relaxed) + 1 == BLIND_MAX => {
                tracing::error!(what = self.what, why, "cannot be read any more; what was read before holds");
                return Some(false);
            }
            Err(_) => return None,
        };
        self.blind.store(0, Ordering::Relaxed);
        let digest = digest(&files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == digest {
            return None;
        }
        *seen = digest;
        match (self.parse)(&files) {
            Ok(value) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
                tracing::info!(what = self.what, "read again");
                Some(true)
            }
            Err(why) => {
                let file = shown(&self.paths);
                tracing::error!(what = self.what, file, why, "cannot be used; what was read before holds");
                Some(false)
            }
        }
    }

    /// Looks again and again, until dropped. `told` hears of each change, and whether it was good.
    pub(crate) async fn follow(self: Arc<Self>, every: Duration, told: impl Fn(bool) + Send + 'static) {
        loop {
            tokio::time::sleep(every).await;
            let this = self.clone();
            // Files may be on a slow disk.
            if let Ok(Some(good)) = tokio::task::spawn_blocking(move || this.look()).await {
                told(good);
            }
        }
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    paths.iter().map(|path| read_one(path).map_err(|why| format!("{}: {why}", path.display()))).collect()
}

fn read_one(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if bytes > BYTES_MAX {
        return Err(format!("it has {bytes} bytes, more than {BYTES_MAX}"));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

fn digest(files: &[Vec<u8>]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for file in files {
        digest.update((file.len() as u64).to_be_bytes());
        digest.update(file);
    }
    digest.finalize().into()
}

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched({}: {})", self.what, shown(&self.paths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_change_keeps_what_was_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("number");
        let parse =
            |files: &[Vec<u8>]| String::from_utf8_lossy(&files[0]).trim().parse().map_err(|_| "no number".into());
        let open = || Watched::<u32>::open("number", vec![path.clone()], parse);
        assert!(open().expect_err("no file").contains("number"));
        std::fs::write(&path, "x").expect("a file");
        assert!(open().expect_err("no number").ends_with("number: no number"));
        std::fs::write(&path, "1").expect("a file");
        let watched = open().expect("a number");
        for (content, now) in [(Some("2"), 2), (Some("x"), 2), (None, 2), (Some("3"), 3), (Some("2"), 2)] {
            match content {
                Some(content) => std::fs::write(&path, content).expect("a file"),
                None => std::fs::remove_file(&path).expect("removed"),
            }
            watched.look();
            assert_eq!(*watched.current(), now, "after {content:?}");
        }
        std::fs::remove_file(&path).expect("removed");
        let looks: Vec<Option<bool>> = (0..5).map(|_| watched.look()).collect();
        assert_eq!(looks, [None, None, Some(false), None, None], "it is told once");
        std::fs::write(&path, "4").expect("a file");
        assert_eq!((watched.look(), *watched.current()), (Some(true), 4));
    }
}
