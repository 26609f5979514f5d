//! Blocks for a shell: run one after the other, as a reader would, with the servers that the page takes for granted.

use std::path::{Path, PathBuf};

use fencepost_testkit::etcd::Etcd;
use fencepost_testkit::postgres::Postgres;
use fencepost_testkit::redis::Redis;

use crate::blocks::{Block, Page, root};
use crate::support::{Done, PROGRAM, Place, Running};

/// A page says where servers are, as they are by default. Here they are elsewhere.
const REDIS: [&str; 6] =
    ["127.0.0.1:6379", "127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003", "127.0.0.1:7004", "127.0.0.1:7005"];
const ETCD: &str = "127.0.0.1:2379";
const SERVICE: &str = "127.0.0.1:7117";
const POSTGRES: &str = "postgres://app@127.0.0.1:5432/app";

/// What is already built need not be built again.
const BUILD: &str = "cargo run -p fencepost-cli --";

/// What installs the command. Here it goes into a folder of the page's own, from what is already built.
const INSTALL: &str = "cargo install --locked --path crates/fencepost-cli";

/// Where the clone is, seen from a crate beside it.
const LIBRARY: &str = "../fencepost/crates/fencepost";

/// What builds a reader's crate as the workspace is built, so that what is already built need not be built again.
const PROFILE: &str =
    "[profile.dev]\ndebug = 'line-tables-only'\n[profile.dev.package.fencepost-core]\nopt-level = 2\n";

/// Stands between what one block says and what the next one says.
const MARK: &str = "@@ the next block @@";

/// A page, and what is put up for it.
pub(crate) struct Stage<'a> {
    page: &'a Page,
    place: Place,
    /// What the page calls it, and what it is here.
    places: Vec<(String, String)>,
    _servers: Vec<Box<dyn std::any::Any>>,
    service: Option<Running>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(page: &'a Page) -> Self {
        let place = Place::new();
        let at = |folder: &str| root().join(folder).display().to_string();
        let install = format!("cargo install --debug --root installed --locked --path {}", at("crates/fencepost-cli"));
        let mut places = vec![
            (BUILD.to_owned(), "fencepost".to_owned()),
            (INSTALL.to_owned(), install),
            (LIBRARY.to_owned(), at("crates/fencepost")),
        ];
        let mut servers: Vec<Box<dyn std::any::Any>> = Vec::new();
        let runs = |text: &str| page.blocks.iter().any(|block| block.is_run() && block.text.contains(text));
        for named in REDIS.into_iter().filter(|named| runs(named)) {
            let server = Redis::new().start();
            places.push((named.to_owned(), server.address()));
            servers.push(Box::new(server));
        }
        if runs(ETCD) {
            let server = Etcd::new().start();
            places.push((ETCD.to_owned(), server.address()));
            servers.push(Box::new(server));
        }
        if runs(POSTGRES) {
            let server = Postgres::new().start();
            places.push((POSTGRES.to_owned(), server.url()));
            servers.push(Box::new(server));
        }
        let service = runs(SERVICE).then(|| {
            let mut service = place.program(PROGRAM).arguments(["serve", "--listen", "127.0.0.1:0"]).start();
            let address = service.line().trim_start_matches("http://").to_owned();
            places.push((SERVICE.to_owned(), address));
            service
        });
        Self { page, place, places, _servers: servers, service }
    }

    /// Runs every block, in one shell as a reader would; what went otherwise than the page says, one sentence each.
    pub(crate) fn play(&self) -> Vec<String> {
        let run: Vec<&Block> = self.page.blocks.iter().filter(|block| block.is_run()).collect();
        let parts = self.page.blocks.iter().filter_map(|block| match block {
            main if main.is_main() => Some(format!("cat >src/main.rs <<'{MARK}'\n{}\n{MARK}\n", main.text)),
            block if block.is_run() => Some(format!("echo '{MARK}'\n{}\n", typed(&block.text))),
            _ => None,
        });
        let done = self.run(&parts.collect::<String>());
        let said: Vec<&str> = done.stdout.split(&format!("{MARK}\n")).skip(1).collect();
        if done.code != 0 {
            let last = said.len().checked_sub(1).and_then(|last| run.get(last));
            let place = last.map_or(self.page.name.clone(), ToString::to_string);
            return vec![format!("{place}: it ended with {}:\n{}", done.code, said.last().unwrap_or(&""))];
        }
        let mut wrong = Vec::new();
        let mut said = said.into_iter();
        let mut before: Option<&str> = None;
        for block in &self.page.blocks {
            if block.is_run() {
                before = said.next();
            } else if block.has("output") {
                match before.take() {
                    None => wrong.push(format!("{block}: no block right before it is run")),
                    Some(said) if !is_like(said, &block.text) => {
                        wrong.push(format!("{block}: the page says\n{}\nand it was\n{said}", block.text));
                    }
                    Some(_) => {}
                }
            } else {
                before = None;
            }
        }
        wrong
    }

    /// Runs a script where the page's servers are, and tells what it said on both streams as the page would have it.
    fn run(&self, text: &str) -> Done {
        let here = self.places.iter().fold(text.to_owned(), |text, (named, here)| text.replace(named, here));
        let script = format!("exec 2>&1\n{here}");
        let done = self.place.program("timeout").arguments(["--kill-after=5", "600", "sh", "-eu", "-c", &script]);
        self.place.write(".cargo/config.toml", PROFILE);
        let done = cargo_homes().into_iter().fold(done, |done, (name, value)| done.set(name, &value));
        let done = done.set("CARGO_NET_OFFLINE", "true");
        let mut done = done.set("PATH", &path()).end();
        for (named, here) in self.places.iter().filter(|(named, _)| ![BUILD, INSTALL, LIBRARY].contains(&&**named)) {
            done.stdout = done.stdout.replace(here, named);
        }
        done
    }
}

/// What a reader's shell would do: the scripts that a block starts are there, and a new crate takes the versions that the clone
/// has.
fn typed(text: &str) -> String {
    let scripts = text.split_whitespace().filter(|word| word.starts_with("./"));
    let written = scripts.map(|script| format!("echo '#!/bin/sh' >{script}; chmod +x {script}\n"));
    let lock = root().join("Cargo.lock");
    let lines = text.lines().map(|line| match line.strip_prefix("cargo new ") {
        Some(name) => format!("{line}; cp '{}' {name}/\n", lock.display()),
        None => format!("{line}\n"),
    });
    written.chain(lines).collect()
}

/// Runs a command in the root of the repository, as it is; its locks are in a folder of its own.
pub(crate) fn as_typed(command: &str) -> Done {
    let place = Place::new();
    let script = format!("cd '{}' && {command}", root().display());
    let shell = place.program("sh").arguments(["-eu", "-c", &script]);
    cargo_homes().into_iter().fold(shell, |shell, (name, value)| shell.set(name, &value)).end()
}

/// A place has a home of its own; the tools stay where they are. In CI nothing is built in steps.
fn cargo_homes() -> Vec<(&'static str, String)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let at = |name: &'static str, folder: &str| {
        (name, std::env::var(name).unwrap_or_else(|_| home.join(folder).display().to_string()))
    };
    let in_steps = if std::env::var_os("CI").is_some() { "0" } else { "1" };
    vec![
        at("CARGO_HOME", ".cargo"),
        at("RUSTUP_HOME", ".rustup"),
        ("CARGO_INCREMENTAL", in_steps.to_owned()),
        // Not the folder of the program that other tests start meanwhile: it would be replaced under them.
        ("CARGO_TARGET_DIR", root().join("target/reader").display().to_string()),
        ("CARGO_TERM_COLOR", "never".to_owned()),
    ]
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if let Some(service) = &self.service {
            service.signal(nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// Where a shell finds the command that was built, before any other.
fn path() -> String {
    let folder = Path::new(PROGRAM).parent().expect("a folder").display().to_string();
    [folder, std::env::var("PATH").unwrap_or_default()].join(":")
}

/// Whether this was said, up to what the page leaves open.
pub(crate) fn is_like(said: &str, shown: &str) -> bool {
    let (said, shown): (Vec<&str>, Vec<&str>) = (said.trim_end().lines().collect(), shown.trim_end().lines().collect());
    lines_are_like(&said, &shown)
}

fn lines_are_like(said: &[&str], shown: &[&str]) -> bool {
    match shown.split_first() {
        None => said.is_empty(),
        Some((&"…", rest)) => (0..=said.len()).any(|skipped| lines_are_like(&said[skipped..], rest)),
        Some((line, rest)) => {
            said.split_first().is_some_and(|(first, said)| line_is_like(first, line) && lines_are_like(said, rest))
        }
    }
}

fn line_is_like(said: &str, shown: &str) -> bool {
    let mut parts = shown.trim_end().split('…');
    let Some(mut rest) = said.trim_end().strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        open = part.is_empty();
    }
    open || rest.is_empty()
}

/// What a shell, or the command itself, does not understand in a block that is not run.
pub(crate) fn misunderstood(block: &Block) -> Vec<String> {
    let place = Place::new();
    let mut wrong = Vec::new();
    let text = if block.language == "crontab" { commands_of(block, &mut wrong) } else { block.text.clone() };
    let read = place.program("sh").arguments(["-n", "-c", &text]).end();
    if read.code != 0 {
        wrong.push(format!("{block}: {}", read.stderr));
    }
    let joined = text.replace("\\\n", " ");
    for line in joined.lines().flat_map(|line| line.split(';')) {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let Some(words) = line.strip_prefix("fencepost ") else { continue };
        // Asked for help, the command reads its words up to there, and does nothing. Others in a pipe are not asked.
        let words = words.split(" | ").next().and_then(|words| words.split(" -- ").next()).unwrap_or_default();
        let asked = format!("fencepost {words} --help");
        let answer = place.program("sh").arguments(["-c", &asked]).set("PATH", &path()).end();
        if answer.code != 0 {
            wrong.push(format!("{block}: {line}: {}", answer.stderr));
        }
    }
    wrong
}

/// The lines of a crontab without their five fields of time.
fn commands_of(block: &Block, wrong: &mut Vec<String>) -> String {
    let mut commands = String::new();
    for line in block.text.lines() {
        let fields: Vec<&str> = line.splitn(6, ' ').collect();
        let is_time = |field: &&str| field.chars().all(|c| c.is_ascii_digit() || "*/,-".contains(c));
        if fields.len() < 6 || !fields[..5].iter().all(is_time) {
            wrong.push(format!("{block}: no line of a crontab: {line}"));
        }
        commands.push_str(fields.get(5).unwrap_or(&""));
        commands.push('\n');
    }
    commands
}

#[test]
fn an_output_is_compared_up_to_what_is_left_open() {
    for shown in ["a 1 b\nc", "a … b\nc", "…\nc", "a 1 b\n…", "… 1 …\nc"] {
        assert!(is_like("a 1 b\nc\n", shown), "{shown}");
    }
    for shown in ["a 1\nc", "a … d\nc", "…\nd", "a 1 b", "a 1 b\nc\nd"] {
        assert!(!is_like("a 1 b\nc\n", shown), "{shown}");
    }
}
