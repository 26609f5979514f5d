//! House rules that no lint knows: style as a test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::links::Links;
use crate::{prose, shell};

/// Words for which we have a better one, in public names.
const BANNED: [(&str, &str); 5] = [
    ("pub struct Mutex", "a named thing is a lock"),
    ("pub fn unlock", "the verb is release"),
    ("pub fn extend", "the verb is renew"),
    ("pub fn with_", "a setting has the name of its field"),
    ("pub struct Session", "a grant with an end is a lease"),
];

/// Left over from work that was not finished. Cut in two, so that this file passes its own check.
const LEFTOVERS: [(&str, &str); 5] = [("TO", "DO"), ("FIX", "ME"), ("db", "g!("), ("to", "do!("), ("#[ig", "nore")];

/// Fails with every finding.
pub(crate) fn check() -> Result<(), String> {
    let (mut findings, mut links) = (Vec::new(), Links::default());
    let files = tracked()?;
    for path in files.iter().filter(|path| has_ending(path, &["rs", "md", "toml", "sh", "sql", "lua"])) {
        let text = fs::read_to_string(path).unwrap_or_default();
        leftovers(path, &text, &mut findings);
        if has_ending(path, &["rs"]) {
            banned(path, &text, &mut findings);
            inline_logs(path, &text, &mut findings);
        }
        if has_ending(path, &["md"]) {
            let of_prose = prose::findings(path.strip_prefix(shell::root()).unwrap_or(path), &text);
            let found = links.findings(path, &text).into_iter().chain(of_prose);
            findings.extend(found.map(|finding| format!("{}: {finding}", shown(path))));
        }
    }
    back_ends(&mut findings);
    core_knows_no_network(&mut findings);
    faults(&mut findings);
    if findings.is_empty() { Ok(()) } else { Err(format!("tidy:\n  {}", findings.join("\n  "))) }
}

fn tracked() -> Result<Vec<PathBuf>, String> {
    let output = shell::command("git", &["ls-files", "--cached", "--others", "--exclude-standard"]).output();
    let output = output.map_err(|error| format!("git ls-files: {error}"))?;
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(names.lines().map(|name| shell::root().join(name)).filter(|path| path.is_file()).collect())
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}

fn leftovers(path: &Path, text: &str, findings: &mut Vec<String>) {
    for (start, end) in LEFTOVERS {
        if text.contains(&format!("{start}{end}")) {
            findings.push(format!("{}: {start}{end} was left behind", shown(path)));
        }
    }
}

fn banned(path: &Path, text: &str, findings: &mut Vec<String>) {
    if path.ends_with("xtask/src/tidy.rs") {
        return;
    }
    for (word, reason) in BANNED {
        if text.contains(word) {
            findings.push(format!("{}: `{word}`: {reason}", shown(path)));
        }
    }
}

/// A subscriber that blocks must not stop a lock: only one place of the library calls it.
fn inline_logs(path: &Path, text: &str, findings: &mut Vec<String>) {
    let shown = shown(path);
    let library =
        ["crates/fencepost-core/src/", "crates/fencepost-sql/src/"].iter().any(|start| shown.starts_with(start))
            || (shown.starts_with("backends/") && shown.contains("/src/"));
    if library && !shown.starts_with("crates/fencepost-core/src/foreign") && text.contains("tracing::") {
        findings.push(format!("{shown}: `tracing::`: log by `notice!`, which does not wait for a subscriber"));
    }
}

/// A back end is one folder, two lines in the facade and one line that runs the contract suite.
fn back_ends(findings: &mut Vec<String>) {
    let facade = shell::root().join("crates/fencepost");
    let manifest = fs::read_to_string(facade.join("Cargo.toml")).unwrap_or_default();
    let urls = fs::read_to_string(facade.join("src/connect.rs")).unwrap_or_default();
    for entry in fs::read_dir(shell::root().join("backends")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let contract = fs::read_to_string(entry.path().join("tests/contract.rs")).unwrap_or_default();
        let rules = [
            (manifest.contains(&format!("dep:fencepost-{name}")), "has no feature in crates/fencepost/Cargo.toml"),
            (urls.contains(&format!("fencepost_{name}::")), "is not in crates/fencepost/src/connect.rs"),
            (contract.contains("contract!("), "does not run the contract suite in tests/contract.rs"),
            (entry.path().join("README.md").is_file(), "has no README.md"),
        ];
        findings.extend(rules.iter().filter(|(kept, _)| !kept).map(|(_, rule)| format!("backends/{name} {rule}")));
    }
}

fn core_knows_no_network(findings: &mut Vec<String>) {
    let manifest = fs::read_to_string(shell::root().join("crates/fencepost-core/Cargo.toml")).unwrap_or_default();
    let product = manifest.split("[dev-dependencies]").next().unwrap_or_default();
    for word in ["tokio", "mio", "hyper", "redis", "rusqlite", "fencepost-"] {
        if product.lines().filter(|line| !line.starts_with("name")).any(|line| line.starts_with(word)) {
            findings.push(format!("crates/fencepost-core depends on {word}: core knows no network and no back end"));
        }
    }
}

/// Every fault has its test and its control: the names in the tables are those of functions, and none is missing.
fn faults(findings: &mut Vec<String>) {
    const TABLE: &str = "docs/faults.md";
    let text = fs::read_to_string(shell::root().join(TABLE)).unwrap_or_default();
    for (path, name) in text.split('`').skip(1).step_by(2).filter_map(|word| word.split_once(".rs::")) {
        let source = fs::read_to_string(shell::root().join(format!("{path}.rs"))).unwrap_or_default();
        if ![format!("fn {name}("), format!("fn {name}<")].iter().any(|start| source.contains(start)) {
            findings.push(format!("{TABLE}: there is no {name} in {path}.rs"));
        }
    }
    for number in (1..=14).chain(16..=23).chain(26..=30) {
        let row = text.lines().find(|line| line.starts_with(&format!("| S-{number:02} |")));
        let cells = row.map(|row| row.split('|').filter(|cell| cell.contains(".rs::")).count());
        if cells != Some(2) {
            findings.push(format!("{TABLE}: S-{number:02} needs a row with a test and a control"));
        }
    }
}

fn shown(path: &Path) -> String {
    path.strip_prefix(shell::root()).unwrap_or(path).display().to_string()
}
