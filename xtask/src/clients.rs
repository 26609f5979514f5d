//! What tests run beside ours and Cargo does not bring, in `target/setup`: other lock libraries, what drives a browser, what
//! fuzzes and lints, what checks and builds the clients for other languages. Their versions are in the lock files beside the
//! programs that use them.

use std::fs;
use std::process::Command;

use crate::setup::{folder, once, read};
use crate::shell;

const DRIVERS: &str = "backends/redis/tests/interop/drivers";
/// What drives the browser in which the dashboard is tested.
const BROWSER: &str = "crates/fencepost-cli/tests/browser/driver";
/// What Python's libraries are, of all back ends.
const PYTHON: [&str; 2] =
    ["backends/redis/tests/interop/drivers/requirements.txt", "backends/zookeeper/tests/interop/requirements.txt"];
/// What fuzzes the HTTP interface, which needs other versions of the same libraries.
const FUZZER: &str = "crates/fencepost-cli/tests/cli/fuzzer/requirements.txt";
/// What looks through the container file.
const LINTER: &str = "crates/fencepost-cli/tests/cli/linter/requirements.txt";
/// What the clients are checked and built with.
const PYTHON_CLIENT: &str = "clients/python/requirements-dev.txt";
const TYPESCRIPT_CLIENT: &str = "clients/typescript";

pub(crate) fn install() -> Result<(), String> {
    // One of the libraries names the compiler it was written for as its peer, which nobody needs to run it.
    node("node", DRIVERS, &["--legacy-peer-deps"])?;
    node("browser", BROWSER, &[])?;
    node("sdk-node", TYPESCRIPT_CLIENT, &[])?;
    python("python", &PYTHON)?;
    python("schemathesis", &[FUZZER])?;
    python("hadolint", &[LINTER])?;
    python("sdk-python", &[PYTHON_CLIENT])?;
    let manifest = format!("{DRIVERS}/rslock/Cargo.toml");
    shell::cargo(&["build", "--quiet", "--locked", "--manifest-path", &manifest, "--target-dir", "target/setup/rslock"])
}

/// Installs the packages of Node.js that a lock file names, and no others.
fn node(into: &str, from: &str, more: &[&str]) -> Result<(), String> {
    let file = |name: &str| format!("{from}/{name}");
    once(&folder(into), &read(&file("package-lock.json"))?, |folder| {
        for name in ["package.json", "package-lock.json"] {
            fs::copy(shell::root().join(file(name)), folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        }
        let quiet = ["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"];
        shell::run(shell::command("npm", &[&quiet, more].concat()).current_dir(folder))
    })
}

/// Installs the wheels that these files name, and no others, into an environment of their own: the system's Python may have
/// no `pip`.
fn python(into: &str, files: &[&str]) -> Result<(), String> {
    let recipe: Vec<String> = files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    once(&folder(into), &recipe.concat(), |folder| {
        shell::run(shell::command("python3", &["-m", "venv"]).arg(folder))?;
        let files = files.iter().flat_map(|file| ["-r".into(), shell::root().join(file)]);
        shell::run(pip(into).args(files))
    })
}

/// Installs exactly what it is told, by the `pip` of such an environment.
pub(crate) fn pip(environment: &str) -> Command {
    let mut pip = Command::new(folder(environment).join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip
}
