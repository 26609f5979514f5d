//! Generated files: man pages, their page of the handbook, shell completions and the description of the HTTP interface,
//! written by the command itself and kept in the tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

const MAN: &str = "docs/man";
const COMPLETIONS: &str = "docs/completions";
const OPENAPI: &str = "docs/openapi.json";
const REFERENCE: &str = "docs/cli.md";
const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];

/// Writes them anew.
pub(crate) fn write() -> Result<(), String> {
    let fresh = fresh(&shell::root().join("target/generated"))?;
    for folder in [MAN, COMPLETIONS] {
        let folder = shell::root().join(folder);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    for (path, text) in fresh {
        let path = shell::root().join(path);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Fails if a file in the tree is not what the command writes today.
pub(crate) fn check() -> Result<(), String> {
    let fresh = fresh(&shell::root().join("target/generated"))?;
    let mut kept = BTreeMap::new();
    for folder in [MAN, COMPLETIONS] {
        collect(&shell::root().join(folder), folder, &mut kept)?;
    }
    for file in [OPENAPI, REFERENCE] {
        if let Ok(text) = fs::read(shell::root().join(file)) {
            kept.insert(PathBuf::from(file), text);
        }
    }
    let stale: Vec<_> =
        fresh.iter().filter(|(path, text)| kept.get(*path) != Some(text)).map(|(path, _)| path).collect();
    let dead: Vec<_> = kept.keys().filter(|path| !fresh.contains_key(*path)).collect();
    if stale.is_empty() && dead.is_empty() {
        return Ok(());
    }
    Err(format!("generated files are not current: run `cargo xtask generate` ({stale:?} {dead:?})"))
}

/// What the command writes today, by path in the tree.
fn fresh(scratch: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    shell::cargo(&["build", "--quiet", "--package", "fencepost-cli"])?;
    let program = shell::root().join("target/debug/fencepost");
    let _ = fs::remove_dir_all(scratch);
    fs::create_dir_all(scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    shell::run(Command::new(&program).arg("man").arg(scratch))?;
    let mut files = BTreeMap::new();
    collect(scratch, MAN, &mut files)?;
    let printed = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).output();
        output.map(|output| output.stdout).map_err(|error| format!("{}: {error}", program.display()))
    };
    for name in SHELLS {
        files.insert(Path::new(COMPLETIONS).join(format!("fencepost.{name}")), printed(&["completions", name])?);
    }
    files.insert(PathBuf::from(OPENAPI), printed(&["serve", "--openapi"])?);
    files.insert(PathBuf::from(REFERENCE), printed(&["man", "--markdown"])?);
    Ok(files)
}

fn collect(folder: &Path, named: &str, into: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let text = fs::read(entry.path()).map_err(|error| format!("{}: {error}", entry.path().display()))?;
        into.insert(Path::new(named).join(entry.file_name()), text);
    }
    Ok(())
}
