//! Pages and their blocks of code.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Blocks that nothing runs: the page, how the block starts, and why.
pub(crate) const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo xtask test", "it runs this test"),
    ("README.md", "cargo install fencepost-cli", "registries: nothing is published yet"),
    ("docs/bench.md", "fencepost bench", "servers of the reader's own"),
    ("docs/doctor.md", "fencepost doctor", "servers of the reader's own"),
    ("docs/start.md", "cargo xtask deb", "it installs as root; a test has the package itself"),
    ("docs/start.md", "podman build", "it fetches images from registries"),
    ("docs/reconfigure.md", "fencepost reconfigure", "servers of the reader's own"),
    ("docs/verify.md", "fencepost verify", "servers of the reader's own"),
    ("docs/top.md", "fencepost top", "it takes the whole terminal until it is left"),
    ("docs/service.md", "fencepost serve", "it serves until it is stopped, in a folder of the system"),
    ("docs/security.md", "fencepost audit check", "FILE stands for the reader's log"),
];

/// One page.
pub(crate) struct Page {
    /// Its path from the root, such as `docs/start.md`.
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
}

/// What stands between two fences.
pub(crate) struct Block {
    pub(crate) page: String,
    line: usize,
    pub(crate) language: String,
    words: Vec<String>,
    pub(crate) text: String,
}

impl Block {
    /// Whether this word stands behind its language.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|other| other == word)
    }

    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether it is the program of the reader's own crate.
    pub(crate) fn is_main(&self) -> bool {
        self.language == "rust" && self.has("main")
    }

    /// Whether a shell runs it here.
    pub(crate) fn is_run(&self) -> bool {
        self.language == "sh" && !self.has("not-run") && !self.has("script")
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.page, self.line)
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root of the repository")
}

/// The README and every page of the handbook.
pub(crate) fn pages() -> Vec<Page> {
    let docs = fs::read_dir(root().join("docs")).expect("docs").map(|entry| entry.expect("an entry").file_name());
    let docs = docs.map(|name| format!("docs/{}", name.to_string_lossy())).filter(|name| name.ends_with(".md"));
    let mut names: Vec<String> = docs.chain(["README.md".to_owned()]).collect();
    names.sort();
    names.into_iter().map(read).collect()
}

fn read(name: String) -> Page {
    let text = fs::read_to_string(root().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let start = line.trim_start();
        let rest = start.trim_start_matches('`');
        let fence = &start[..start.len() - rest.len()];
        if fence.len() < 3 {
            continue;
        }
        let indent = line.len() - start.len();
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != fence);
        let body: Vec<&str> = body.map(|line| line.get(indent..).unwrap_or_default()).collect();
        let mut words = rest.split([' ', ',']).map(str::to_owned);
        blocks.push(Block {
            page: name.clone(),
            line: number + 1,
            language: words.next().unwrap_or_default(),
            words: words.collect(),
            text: body.join("\n"),
        });
    }
    Page { name, blocks }
}
