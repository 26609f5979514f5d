//! Running other programs from the root of the repository.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the root").to_owned()
}

/// A command that runs in the root.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Says what it runs, runs it, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let line = announce(command);
    let status = command.status().map_err(|error| format!("{line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

fn announce(command: &Command) -> String {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let line = format!("{} {}", command.get_program().to_string_lossy(), words.join(" "));
    eprintln!("+ {line}");
    line
}

/// Runs tests; what failed is said once more at the end, where a reader of thousands of lines looks first.
pub(crate) fn run_tests(command: &mut Command) -> Result<(), String> {
    let line = announce(command);
    let failed = |error: std::io::Error| format!("{line}: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (mut failures, mut failing) = (String::new(), false);
    for said in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let said = said.map_err(failed)?;
        println!("{said}");
        failing = (failing || said == "failures:") && !said.starts_with("test result:");
        if failing {
            failures.push_str(&said);
            failures.push('\n');
        }
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}\n{failures}")) }
}

/// Runs cargo.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    run(&mut command("cargo", arguments))
}
