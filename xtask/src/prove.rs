//! The long search, and the page that says what it found.

use std::fs;

use crate::shell;

const PROVE: [&str; 8] = ["run", "--quiet", "--release", "--package", "fencepost-sim", "--bin", "prove", "--"];

const PAGE: &str = "docs/evidence.md";

/// Searches, or runs one seed again.
pub(crate) fn search(arguments: impl Iterator<Item = String>) -> Result<(), String> {
    shell::run(shell::command("cargo", &PROVE).args(arguments))
}

/// Fails if the page of evidence does not say what is so; seeds are not counted again.
pub(crate) fn check() -> Result<(), String> {
    let page = shell::root().join(PAGE);
    let prove = ["run", "--quiet", "--package", "fencepost-sim", "--bin", "prove", "--", "--check"];
    shell::run(shell::command("cargo", &prove).arg(page))
}

/// Writes the page of evidence anew.
pub(crate) fn write_evidence() -> Result<(), String> {
    let output = shell::command("cargo", &PROVE).arg("--evidence").stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo run prove: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo run prove: {}", output.status));
    }
    let page = shell::root().join(PAGE);
    fs::write(&page, output.stdout).map_err(|error| format!("{}: {error}", page.display()))
}
