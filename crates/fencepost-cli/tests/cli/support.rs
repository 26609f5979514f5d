//! A small language for stories about commands: a place, an invocation, and what became of it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use fencepost_testkit::process::full_pipe;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");

/// Says `held`, then holds on until its standard input ends.
pub(crate) const HOLD: [&str; 3] = ["sh", "-c", "echo held; read -r line; exit 0"];

/// A folder with a store, a home and no configuration.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn fencepost<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Invocation {
        let store = format!("sqlite:{}", self.path("locks.db").display());
        self.program(PROGRAM).arguments(arguments).set("FENCEPOST_STORE", &store)
    }

    /// `fencepost run [flags] NAME -- COMMAND`
    pub(crate) fn run(&self, flags: &[&str], command: &[&str]) -> Invocation {
        self.fencepost([&["run"], flags, &["--"], command].concat())
    }

    /// Another program in the same surroundings.
    pub(crate) fn program(&self, program: &str) -> Invocation {
        // Whoever runs the tests in the background ignores some signals, and so would the program: it keeps to that.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT,TERM", program]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FENCEPOST_") {
                command.env_remove(name);
            }
        }
        let dir = self.dir.path();
        command.current_dir(dir).env("HOME", dir).env("XDG_CONFIG_HOME", dir.join("config"));
        command.env("XDG_STATE_HOME", dir.join("state"));
        Invocation(command)
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let done = self.fencepost([arguments, &["--json"]].concat()).end();
        serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
    }

    pub(crate) fn is_free(&self, name: &str) -> bool {
        let state = self.json(&["show", name]);
        state["holders"] == serde_json::json!([]) && state["waiters"] == serde_json::json!([])
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

pub(crate) struct Invocation(Command);

impl Invocation {
    pub(crate) fn arguments<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.0.args(arguments);
        self
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn unset(mut self, name: &str) -> Self {
        self.0.env_remove(name);
        self
    }

    /// Runs it to its end.
    pub(crate) fn end(mut self) -> Done {
        let output = self.0.stdin(Stdio::null()).output().expect("the program starts");
        Done {
            code: output.status.code().unwrap_or_else(|| -output.status.signal().expect("a code or a signal")),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts it, and waits for its first line on stdout.
    pub(crate) fn start_until_it_says(self, line: &str) -> Running {
        let mut running = self.start();
        assert_eq!(running.line(), line);
        running
    }

    /// The same, while nobody reads what it writes to stderr, and a pipe takes no more of it. The pipe ends with the second.
    pub(crate) fn start_unread_until_it_says(mut self, line: &str) -> (Running, PipeReader) {
        let (unread, stderr) = full_pipe();
        self.0.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = self.0.spawn().expect("the program starts");
        // It has the other copy of our end of the pipe.
        drop(self);
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("piped")));
        let mut running = Running { child, stdin, stdout };
        assert_eq!(running.line(), line);
        (running, unread)
    }

    pub(crate) fn start(mut self) -> Running {
        self.0.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.0.spawn().expect("the program starts");
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("piped")));
        Running { child, stdin, stdout }
    }
}

/// A program at work. Its standard input is held open until it is let go.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line on stdout.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Waits for a line on stderr with these words.
    pub(crate) fn until_it_notes(&mut self, words: &str) {
        let stderr = self.child.stderr.as_mut().expect("piped");
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !String::from_utf8_lossy(&said).contains(words) {
            assert_eq!(stderr.read(&mut byte).expect("stderr"), 1, "never said {words:?}");
            said.extend(byte);
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it is alive");
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("not let go yet"), "{line}").expect("it listens");
    }

    /// Ends its standard input.
    pub(crate) fn let_go(mut self) -> Done {
        self.stdin = None;
        self.end()
    }

    /// Waits for the end of the program, and of everything that shares its output.
    pub(crate) fn end(mut self) -> Done {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).expect("stdout");
        if let Some(mut piped) = self.child.stderr.take() {
            piped.read_to_string(&mut stderr).expect("stderr");
        }
        let status = self.child.wait().expect("it ended");
        let code = status.code().unwrap_or_else(|| -status.signal().expect("a code or a signal"));
        Done { code, stdout, stderr }
    }
}

/// What became of it. A negative code is the signal that ended it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    #[track_caller]
    pub(crate) fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn saying(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "{words:?} is not in {self:?}");
        self
    }
}
