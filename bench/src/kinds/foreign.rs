//! Lock libraries of other languages: programs in `peers/`, with what `--setup` installed.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use super::Kind;
use crate::Outcome;
use crate::contest::Task;

/// Its scripts set the key.
pub(crate) const REDLOCK_4: Kind = foreign("redlock 4 (Node)", false, || node("redlock4"));
pub(crate) const REDLOCK_5: Kind = foreign("redlock 5 (Node)", false, || node("redlock5"));
pub(crate) const POTTERY: Kind = foreign("pottery (Python)", true, || python("pottery"));
pub(crate) const REDIS_PY: Kind = foreign("redis-py (Python)", true, || python("redis-py"));

#[cfg(feature = "coordinators")]
pub(crate) const KAZOO: Kind = foreign("kazoo (Python)", false, || python("kazoo"));

const fn foreign(name: &'static str, sets: bool, program: fn() -> Outcome<Command>) -> Kind {
    Kind { name, fenced: false, sets, program: Some(program), run: is_another_program }
}

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

fn is_another_program(_: &Task) -> Outcome<()> {
    Err("this kind of lock is another program".into())
}

fn node(package: &str) -> Outcome<Command> {
    let modules = installed("node", "node_modules")?;
    let mut command = Command::new("node");
    command.arg(format!("{PROGRAMS}/redlock.mjs")).arg(modules).arg(package);
    Ok(command)
}

fn python(library: &str) -> Outcome<Command> {
    let mut command = Command::new(installed("python", "bin/python")?);
    command.arg(format!("{PROGRAMS}/locks.py")).arg(library);
    Ok(command)
}

/// The folder or program that is there after `--setup`: the folder it is in for Node, the program itself for Python.
fn installed(language: &str, part: &str) -> Outcome<PathBuf> {
    let folder = folder(language)?;
    let path = folder.join(part);
    if !path.exists() {
        return Err(format!("{} is not there: run `fencepost-bench --setup`", path.display()).into());
    }
    Ok(if language == "node" { folder } else { path })
}

/// In the target folder.
fn folder(language: &str) -> Outcome<PathBuf> {
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or("this program is in no target folder")?;
    Ok(target.join("peers").join(language))
}

/// Installs exactly what the lock files name. Needs `npm`, and `python3` with `venv`.
pub(crate) fn install() -> Outcome<()> {
    let node = folder("node")?;
    fs::create_dir_all(&node)?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(format!("{PROGRAMS}/{name}"), node.join(name))?;
    }
    let quiet = ["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"];
    run(Command::new("npm").args(quiet).current_dir(&node))?;
    let python = folder("python")?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r"];
    run(Command::new(python.join("bin/python")).args(pip).arg(format!("{PROGRAMS}/requirements.txt")))
}

fn run(command: &mut Command) -> Outcome<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} failed: {status}").into()) }
}
