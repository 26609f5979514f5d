//! Runs the test programs of the workspace side by side: most of them wait for servers and leases, not for a core.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::shell;

/// How many run at a time. They share two cores with the servers that they start.
const AT_ONCE: usize = 2;

/// No program needs so long: one that does hangs, and the others' results shall still be seen.
const LIMIT: Duration = Duration::from_secs(12 * 60);

/// How every secret begins that a test plants to see whether it comes out. Nothing says one, whatever its test looks at.
const PLANTED: &str = "canary-";

/// A program with tests in it.
struct Program {
    /// Its package and source, for people.
    title: String,
    executable: PathBuf,
    /// Where cargo would start it.
    folder: PathBuf,
}

/// Builds all of them, runs them, prints what each said when it ended, and once more at the end what failed.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let programs = build(arguments)?;
    let mut total = Total::default();
    let waiting = Mutex::new(programs);
    let (ended, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            let (waiting, ended) = (&waiting, ended.clone());
            scope.spawn(move || {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(program) = next else { return };
                    let result = run_one(&program);
                    if ended.send((program, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(ended);
        for (program, result) in results {
            total.add(&program, result);
        }
    });
    total.close()
}

/// What cargo says of each thing that it has built, as far as it matters here.
#[derive(Deserialize)]
struct Built {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn build(arguments: &[&str]) -> Result<VecDeque<Program>, String> {
    let mut command = shell::command("cargo", &["test", "--no-run", "--message-format", "json-render-diagnostics"]);
    let line = shell::announce(command.args(arguments));
    let failed = |why: &dyn std::fmt::Display| format!("{line}: {why}");
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&output.status));
    }
    let mut programs = Vec::new();
    for said in String::from_utf8_lossy(&output.stdout).lines() {
        let built: Built = serde_json::from_str(said).map_err(|error| failed(&error))?;
        if let Built {
            executable: Some(executable),
            manifest_path: Some(manifest),
            target: Some(target),
            profile: Some(Profile { test: true }),
        } = built
        {
            let root = shell::root();
            let title = target.src_path.strip_prefix(&root).unwrap_or(&target.src_path).display().to_string();
            let folder = manifest.parent().unwrap_or(&root).to_owned();
            programs.push(Program { title, executable, folder });
        }
    }
    // The suites of whole stores take longest: begun first, nobody waits for one of them alone at the end.
    programs.sort_by_key(|program| (!program.title.contains("contract"), program.title.clone()));
    Ok(programs.into())
}

/// What became of a program.
struct Ended {
    status: ExitStatus,
    out: String,
    err: String,
    took: Duration,
    /// It was stopped because it did not end.
    stopped: bool,
}

/// What it says goes into files. A pipe would be open for as long as any server of its tests has it, also one that outlives
/// a program that was stopped.
fn run_one(program: &Program) -> std::io::Result<Ended> {
    let began = Instant::now();
    let folder = shell::root().join("target/said");
    fs::create_dir_all(&folder)?;
    let name = program.title.replace('/', ".");
    let [out, err] = ["out", "err"].map(|kind| folder.join(format!("{name}.{kind}")));
    let mut child = Command::new(&program.executable)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .spawn()?;
    let id = child.id();
    let (ended, end) = mpsc::channel::<()>();
    let guard = thread::spawn(move || {
        let late = end.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout);
        // By its id, and nothing else.
        late && Command::new("kill").args(["-KILL", &id.to_string()]).status().is_ok()
    });
    let status = child.wait()?;
    drop(ended);
    let stopped = guard.join().unwrap_or(false);
    let read = |path: &Path| fs::read(path).map(|said| String::from_utf8_lossy(&said).into_owned());
    Ok(Ended { status, out: read(&out)?, err: read(&err)?, took: began.elapsed(), stopped })
}

/// What all programs said, added up.
#[derive(Default)]
struct Total {
    passed: usize,
    failed: usize,
    failures: String,
}

impl Total {
    fn add(&mut self, program: &Program, result: std::io::Result<Ended>) {
        let title = &program.title;
        let ended = match result {
            Ok(ended) => ended,
            Err(error) => return self.fail(title, &format!("could not be run: {error}\n")),
        };
        let (out, err) = (&ended.out, &ended.err);
        println!("\n     Running {title}, {:.1} s\n{out}{err}", ended.took.as_secs_f64());
        let (passed, failed) = counts(out);
        self.passed += passed;
        self.failed += failed;
        if let Some(line) = out.lines().chain(err.lines()).find(|line| line.contains(PLANTED)) {
            self.fail(title, &format!("a secret that was planted came out: {line}\n"));
        }
        if ended.stopped {
            self.fail(title, &format!("did not end in {} minutes, and was stopped\n{out}{err}", LIMIT.as_secs() / 60));
        } else if !ended.status.success() && failed == 0 {
            self.fail(title, &format!("{}\n{err}", ended.status));
        } else if failed > 0 {
            let told = out.find("\nfailures:\n").map_or(&**out, |start| &out[start..]);
            let _ = writeln!(self.failures, "{title}: {told}");
        }
    }

    /// Something failed that no test counted.
    fn fail(&mut self, title: &str, why: &str) {
        self.failed += 1;
        let _ = writeln!(self.failures, "{title}: {why}");
    }

    fn close(self) -> Result<(), String> {
        println!("\n{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { Ok(()) } else { Err(format!("these tests failed:\n{}", self.failures)) }
    }
}

/// How many tests passed and failed, from the line that ends a program.
fn counts(said: &str) -> (usize, usize) {
    let before = |line: &str, word: &str| -> usize {
        let number = line.split(word).next().and_then(|start| start.split_whitespace().last());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    said.lines()
        .filter(|line| line.starts_with("test result:"))
        .map(|line| (before(line, " passed"), before(line, " failed")))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn the_last_line_of_a_program_is_counted() {
        let said =
            "running 3 tests\ntest result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; finished in 0.1s\n";
        assert_eq!(counts(said), (2, 1));
        assert_eq!(counts("killed before it could say"), (0, 0));
    }
}
