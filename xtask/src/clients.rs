//! Other lock libraries, which the interop tests run beside ours, in `target/setup`. Their versions are in the lock
//! files beside the programs that drive them.

use std::fs;
use std::process::Command;

use crate::setup::{folder, once, read};
use crate::shell;

const DRIVERS: &str = "backends/redis/tests/interop/drivers";
/// What Python's libraries are, of all back ends.
const PYTHON: [&str; 2] =
    ["backends/redis/tests/interop/drivers/requirements.txt", "backends/zookeeper/tests/interop/requirements.txt"];

pub(crate) fn install() -> Result<(), String> {
    let file = |name: &str| format!("{DRIVERS}/{name}");
    once(&folder("node"), &read(&file("package-lock.json"))?, |folder| {
        for name in ["package.json", "package-lock.json"] {
            fs::copy(shell::root().join(file(name)), folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        }
        // One of them names the compiler it was written for as its peer, which nobody needs to run it.
        let quiet = ["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps"];
        shell::run(shell::command("npm", &quiet).current_dir(folder))
    })?;
    let python: Vec<String> = PYTHON.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    once(&folder("python"), &python.concat(), |folder| {
        shell::run(shell::command("python3", &["-m", "venv"]).arg(folder))?;
        PYTHON.iter().try_for_each(|path| shell::run(pip().arg("-r").arg(shell::root().join(path))))
    })?;
    let manifest = file("rslock/Cargo.toml");
    shell::cargo(&["build", "--quiet", "--locked", "--manifest-path", &manifest, "--target-dir", "target/setup/rslock"])
}

/// Installs wheels, exactly those that are named: `pip` of our own environment, because the system's Python may have none.
pub(crate) fn pip() -> Command {
    let mut pip = Command::new(folder("python").join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip
}
