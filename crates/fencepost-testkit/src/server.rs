//! Real servers for tests: found on the `PATH`, on a free port, in their own process group and folder, ready before
//! they are handed out, stopped when dropped. A server that is not installed fails the test and says what to install.

use std::fs::{self, File};
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, Uid, User};
use tempfile::TempDir;

use crate::ports::free_port;

/// How long a server may take to become ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often a start is tried again on another port: somebody else may have taken it meanwhile.
const STARTS_MAX: u32 = 5;

/// How to start a kind of server.
pub trait Recipe {
    /// The program, found on the `PATH` or by the environment variable `FENCEPOST_TEST_<PROGRAM>`.
    const PROGRAM: &'static str;
    /// The Debian package that has it.
    const PACKAGE: &'static str;
    /// Where the program is.
    fn program(&self) -> PathBuf {
        find(Self::PROGRAM, Self::PACKAGE)
    }
    /// The command line for this port and folder.
    fn command(&self, command: &mut Command, port: u16, folder: &Path);
    /// Speaks the server's own protocol: `Ok` once it answers as it should.
    fn ready(&self, stream: TcpStream) -> io::Result<()>;
    /// Who runs it if the tests run as root, for servers that refuse to.
    const USER: Option<&'static str> = None;
    /// What ends it for good.
    const END: Signal = Signal::SIGKILL;
    /// Makes what it needs in its folder, once, before the first start.
    fn prepare(&self, _folder: &Path) {}
}

/// A server that runs.
#[derive(Debug)]
pub struct Server<R: Recipe> {
    recipe: R,
    process: Option<Child>,
    port: u16,
    folder: Option<TempDir>,
}

impl<R: Recipe> Server<R> {
    /// Starts one and waits until it answers.
    ///
    /// # Panics
    /// If it is not installed or does not become ready; the message has its log.
    pub fn start(recipe: R) -> Self {
        let folder = TempDir::with_prefix(format!("fencepost-{}-", R::PROGRAM)).expect("a temporary folder");
        let mut server = Self { recipe, process: None, port: 0, folder: Some(folder) };
        R::USER.into_iter().for_each(|user| give_to(server.folder(), user));
        server.recipe.prepare(server.folder());
        for _ in 0..STARTS_MAX {
            server.port = free_port();
            if server.launch() {
                return server;
            }
        }
        panic!("{} did not start on {STARTS_MAX} ports; its log:\n{}", R::PROGRAM, server.log());
    }

    /// How it was started.
    pub fn recipe(&self) -> &R {
        &self.recipe
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where it keeps its data.
    pub fn folder(&self) -> &Path {
        self.folder.as_ref().expect("BUG: the folder lives as long as the server").path()
    }

    /// What it wrote to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Stops it in its tracks (SIGSTOP).
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Ends it at once (SIGKILL), as a power cut to the process.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.reap();
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        self.reap();
    }

    /// Starts it again, on the same port and data.
    ///
    /// # Panics
    /// If it does not become ready.
    pub fn restart(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
        // Processes that it had started may outlive it for a moment, and keep it from coming back.
        let began = Instant::now();
        while !self.launch() {
            assert!(began.elapsed() < READY_WITHIN, "{} did not come back; its log:\n{}", R::PROGRAM, self.log());
            crate::wait::a_moment();
        }
    }

    fn launch(&mut self) -> bool {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log file");
        let mut command = Command::new(self.recipe.program());
        self.recipe.command(&mut command, self.port, self.folder());
        command.current_dir(self.folder()).stdin(Stdio::null()).process_group(0);
        R::USER.into_iter().for_each(|user| act_as(&mut command, user));
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        self.process = Some(command.spawn().expect("a program that was found can be started"));
        let started = Instant::now();
        loop {
            let process = self.process.as_mut().expect("BUG: just started");
            if process.try_wait().expect("our own child").is_some() {
                self.process = None;
                return false;
            }
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
                if self.recipe.ready(stream).is_ok() {
                    return true;
                }
            }
            assert!(started.elapsed() < READY_WITHIN, "{} is not ready; its log:\n{}", R::PROGRAM, self.log());
            crate::wait::a_moment();
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            let group = Pid::from_raw(i32::try_from(process.id()).expect("a process id"));
            if killpg(group, signal).is_err() {
                let _ = kill(group, signal);
            }
        }
    }

    fn reap(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
    }

    fn log_path(&self) -> PathBuf {
        self.folder().join("server.log")
    }
}

impl<R: Recipe> Drop for Server<R> {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
        self.signal(R::END);
        self.reap();
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            eprintln!("the log and data of {} stay in {}", R::PROGRAM, folder.keep().display());
        }
    }
}

/// Who does what root must not do; `None` if we are not root.
fn stand_in(user: &str) -> Option<User> {
    if !Uid::effective().is_root() {
        return None;
    }
    let found = User::from_name(user).ok().flatten();
    Some(found.unwrap_or_else(|| panic!("this test needs the user {user}: run `cargo xtask setup`")))
}

/// Lets a program run as that user, if we are root.
pub(crate) fn act_as(command: &mut Command, user: &str) {
    if let Some(user) = stand_in(user) {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
}

/// Gives a file or folder to that user, if we are root.
pub(crate) fn give_to(path: &Path, user: &str) {
    if let Some(user) = stand_in(user) {
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("root may give a file away");
    }
}

/// Copies a certificate and its key to where only the server may read them.
pub(crate) fn place_certificate(from: &Path, folder: &Path, user: &str) {
    for file in ["server.pem", "server.key"] {
        let to = folder.join(file);
        fs::copy(from.join(file), &to).expect("a file of the certificates' folder");
        fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).expect("our own file");
        give_to(&to, user);
    }
}

/// Where a program is.
///
/// # Panics
/// If it is not installed.
pub fn find(program: &str, package: &str) -> PathBuf {
    let variable = format!("FENCEPOST_TEST_{}", program.to_uppercase().replace('-', "_"));
    if let Some(path) = std::env::var_os(&variable) {
        return path.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let places = places.chain(postgres_programs());
    places.map(|place| place.join(program)).find(|place| place.is_file()).unwrap_or_else(|| {
        panic!(
            "this test needs {program}: run `cargo xtask setup` (or `apt-get install -y {package}`), or set {variable} \
             to its path"
        )
    })
}

/// Debian keeps the programs of each version of PostgreSQL in a folder of their own; the newest first.
fn postgres_programs() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path()).collect();
    versions.sort_by_key(|path| {
        let version = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<u32>().ok());
        std::cmp::Reverse(version)
    });
    versions.into_iter().map(|version| version.join("bin")).collect()
}

/// Something that `cargo xtask setup` puts into `target/setup`.
///
/// # Panics
/// If it is not there.
pub fn find_in_setup(path: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/setup").join(path);
    assert!(place.exists(), "this test needs {}: run `cargo xtask setup`", place.display());
    place
}
