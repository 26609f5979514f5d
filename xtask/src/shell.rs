//! Running other programs from the root of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the root").to_owned()
}

/// A command that runs in the root.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    if std::env::var_os("CI").is_some() {
        // What is built once is not built in steps, which takes longer and three times the disk.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Says what it runs, runs it, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let line = announce(command);
    let status = command.status().map_err(|error| format!("{line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

/// Says what it runs.
pub(crate) fn announce(command: &Command) -> String {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let line = format!("{} {}", command.get_program().to_string_lossy(), words.join(" "));
    eprintln!("+ {line}");
    line
}

/// Runs cargo.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    run(&mut command("cargo", arguments))
}
