//! Libraries that are preloaded into a process to give it a bad world: clocks that are set, a disk that forgets. Built
//! by the test that needs them, with the system's C compiler.

use std::fs::{self, File, Permissions};
use std::net::IpAddr;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::server::find;

/// Environment of the process that gets a library.
pub type Environment = Vec<(&'static str, PathBuf)>;

/// Compiles a library into a folder.
fn build(name: &str, folder: &Path) -> PathBuf {
    let compiler = find("cc", "gcc libc6-dev");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload").join(name).with_extension("c");
    let library = folder.join(name).with_extension("so");
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(&library).arg(source);
    let output = command.output().expect("the compiler starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} does not compile; `cargo xtask setup` installs what it needs:\n{said}");
    library
}

/// The wall clock and the boot clock of the processes that have them, ahead of the machine's or behind.
#[derive(Debug)]
pub struct Clocks {
    folder: TempDir,
    offsets: File,
}

impl Clocks {
    /// Those of the machine, until they are set.
    ///
    /// # Panics
    /// If there is no C compiler.
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("fencepost-clocks-").expect("a temporary folder");
        // Some servers run as somebody else.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("our own folder");
        build("clocks", folder.path());
        let offsets = File::create(folder.path().join("offsets")).expect("our own folder");
        offsets.write_all_at(&[0; 16], 0).expect("our own file");
        Self { folder, offsets }
    }

    /// For a process that shall have them.
    pub fn environment(&self) -> Environment {
        let file = |name: &str| self.folder.path().join(name);
        vec![("LD_PRELOAD", file("clocks.so")), ("FENCEPOST_TEST_CLOCKS", file("offsets"))]
    }

    /// Sets the wall clock to so much after the machine's.
    pub fn wall_ahead(&self, by: Duration) {
        self.set(0, nanos(by));
    }

    /// Sets the wall clock to so much before the machine's.
    pub fn wall_behind(&self, by: Duration) {
        self.set(0, -nanos(by));
    }

    /// As if the machine had slept for so long: the boot clock has counted on, and the monotonic one has not.
    pub fn slept(&self, span: Duration) {
        self.set(8, nanos(span));
    }

    fn set(&self, at: u64, nanos: i64) {
        self.offsets.write_all_at(&nanos.to_ne_bytes(), at).expect("our own file");
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Self::new()
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).expect("less than three centuries")
}

/// An address for the connections of a process, so that they can be told from others'.
#[derive(Debug)]
pub struct Source(TempDir);

impl Source {
    /// For any number of processes.
    ///
    /// # Panics
    /// If there is no C compiler.
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("fencepost-source-").expect("a temporary folder");
        build("source", folder.path());
        Self(folder)
    }

    /// For the process whose connections shall come from there.
    pub fn environment(&self, address: IpAddr) -> Environment {
        let address = PathBuf::from(address.to_string());
        vec![("LD_PRELOAD", self.0.path().join("source.so")), ("FENCEPOST_TEST_SOURCE", address)]
    }
}

impl Default for Source {
    fn default() -> Self {
        Self::new()
    }
}

/// The disk of a Redis server with an append-only file: it has nothing but what was synced when the server is killed, and
/// may be full.
#[derive(Debug)]
pub struct Disk(TempDir);

impl Disk {
    /// With room on it.
    ///
    /// # Panics
    /// If there is no C compiler.
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("fencepost-disk-").expect("a temporary folder");
        build("disk", folder.path());
        Self(folder)
    }

    /// For the server that shall have it.
    pub fn environment(&self) -> Environment {
        vec![("LD_PRELOAD", self.0.path().join("disk.so")), ("FENCEPOST_TEST_DISK_FULL", self.full_file())]
    }

    /// There is no room left on it.
    ///
    /// # Panics
    /// If the test's own disk is full.
    pub fn fill(&self) {
        File::create(self.full_file()).expect("our own folder");
    }

    /// There is room again.
    ///
    /// # Panics
    /// If it was not full.
    pub fn make_room(&self) {
        std::fs::remove_file(self.full_file()).expect("it was full");
    }

    fn full_file(&self) -> PathBuf {
        self.0.path().join("full")
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

/// A disk that takes so long to keep what it was given.
#[derive(Debug)]
pub struct SlowDisk(TempDir, Duration);

impl SlowDisk {
    /// Each sync takes so long at least.
    ///
    /// # Panics
    /// If there is no C compiler.
    pub fn new(sync: Duration) -> Self {
        let folder = TempDir::with_prefix("fencepost-slow-").expect("a temporary folder");
        build("slow_disk", folder.path());
        Self(folder, sync)
    }

    /// For a process that shall have it.
    pub fn environment(&self) -> Environment {
        let ms = PathBuf::from(self.1.as_millis().to_string());
        vec![("LD_PRELOAD", self.0.path().join("slow_disk.so")), ("FENCEPOST_TEST_SYNC_MS", ms)]
    }
}
