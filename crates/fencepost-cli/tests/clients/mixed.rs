//! Twenty processes in three languages on one lock, through two replicas of which one is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::packages::{Node, Python};
use crate::tools::{PROGRAM, Tool, done};

/// How many processes of each language, and how often each comes in.
const PYTHON: (usize, usize) = (7, 6);
const NODE: (usize, usize) = (7, 6);
const RUST: (usize, usize) = (6, 3);

/// Notes that it came in and went out, and in between counts by reading and writing, which loses what two do at a time.
const IN_PYTHON: &str = r#"
import sys, fencepost
urls, rounds, folder = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
def note(mark, token):
    with open(folder + "/notes", "a") as notes:
        notes.write(f"{mark} {token} python\n")
with fencepost.Client(urls) as client:
    for _ in range(rounds):
        with client.lock("shared", ttl=10, wait=100) as lock:
            note("+", lock.token)
            with open(folder + "/count") as count: number = int(count.read())
            with open(folder + "/count", "w") as count: count.write(str(number + 1))
            lock.check()
            note("-", lock.token)
"#;

const IN_NODE: &str = r#"
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { Client } from "fencepost";
const [urls, rounds, folder] = process.argv.slice(2);
const note = (mark, token) => appendFileSync(`${folder}/notes`, `${mark} ${token} node\n`);
const client = new Client(urls.split(","));
for (let round = 0; round < Number(rounds); round++) {
  await client.withLock("shared", { ttlMs: 10_000, waitMs: 100_000 }, async (lock) => {
    note("+", lock.token);
    const number = Number(readFileSync(`${folder}/count`, "utf8"));
    await new Promise((resolve) => setImmediate(resolve));
    writeFileSync(`${folder}/count`, String(number + 1));
    lock.check();
    note("-", lock.token);
  });
}
"#;

const IN_RUST: &str = r#"
for round in $(seq "$2"); do
  "$FENCEPOST_PROGRAM" --store "$1" run --ttl 10s --wait 100s shared -- sh -ec '
    printf "+ %s rust\n" "$FENCEPOST_TOKEN" >> notes
    number=$(cat count)
    printf %s "$((number + 1))" > count
    printf "%s %s rust\n" - "$FENCEPOST_TOKEN" >> notes'
done
"#;

/// A process that does not outlive its test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn replica(folder: &Path, name: &str) -> (Started, String) {
    let store = format!("sqlite:{}", folder.join("locks.db").display());
    let mut command = Command::new(PROGRAM);
    command.args(["--store", &store, "serve", "--listen", "127.0.0.1:0", "--audit-log"]).arg(folder.join(name));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("where it listens");
    (Started(child), line.trim().to_owned())
}

fn notes(folder: &Path) -> String {
    fs::read_to_string(folder.join("notes")).expect("notes")
}

#[test]
fn twenty_processes_in_three_languages_never_overlap() {
    let place = TempDir::new().expect("a temporary folder");
    let folder = place.path();
    let ((one, first), (_two, second)) = (replica(folder, "first.log"), replica(folder, "second.log"));
    fs::write(folder.join("count"), "0").expect("a file");
    fs::write(folder.join("notes"), "").expect("a file");
    let program = Node::installed().app().join("worker.mjs");
    fs::write(&program, IN_NODE).expect("a file");

    let urls = format!("{first},{second}");
    let store = format!("fencepost+{first},{}", second.trim_start_matches("http://"));
    let start = |tool: Tool, words: &[&str], urls: &str, rounds: usize| {
        let mut command = tool.program(words[0]);
        command.args(&words[1..]).args([urls, &rounds.to_string()]).arg(folder).current_dir(folder);
        Started(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts"))
    };
    let interpreter = Python::installed().interpreter().display().to_string();
    let program = program.display().to_string();
    let mut workers = Vec::new();
    for _ in 0..PYTHON.0 {
        workers.push(start(Tool::Python, &[&interpreter, "-c", IN_PYTHON], &urls, PYTHON.1));
    }
    for _ in 0..NODE.0 {
        workers.push(start(Tool::Node, &["node", &program], &urls, NODE.1));
    }
    for _ in 0..RUST.0 {
        workers.push(start(Tool::Node, &["sh", "-euc", IN_RUST, "sh"], &store, RUST.1));
    }
    assert_eq!(workers.len(), 20);

    let all = PYTHON.0 * PYTHON.1 + NODE.0 * NODE.1 + RUST.0 * RUST.1;
    fencepost_testkit::wait::until("half of it is done", || notes(folder).lines().count() > all);
    drop(one);
    for worker in &mut workers {
        let mut said = String::new();
        std::io::Read::read_to_string(worker.0.stderr.as_mut().expect("piped"), &mut said).expect("stderr");
        assert!(worker.0.wait().expect("it ends").success(), "{said}");
    }

    check(&notes(folder), all);
    assert_eq!(fs::read_to_string(folder.join("count")).expect("a count"), all.to_string(), "no write was lost");
    done(Command::new(PROGRAM).args(["audit", "check"]).arg(folder.join("second.log")));
}

/// Whoever came in went out before the next, and the next had a higher token.
fn check(notes: &str, all: usize) {
    let lines: Vec<Vec<&str>> = notes.lines().map(|line| line.split(' ').collect()).collect();
    let (mut last, mut languages) = (0, [0; 3]);
    for pair in lines.chunks(2) {
        let [came, went] = pair else { panic!("somebody never went out: {pair:?}") };
        assert_eq!((came[0], went[0]), ("+", "-"), "two at a time: {came:?}, {went:?}");
        assert_eq!(came[1..], went[1..], "two at a time");
        let token: u64 = came[1].parse().expect("a token");
        assert!(token > last, "{token} came after {last}");
        last = token;
        languages[["python", "node", "rust"].iter().position(|name| *name == came[2]).expect("a language")] += 1;
    }
    assert_eq!(languages, [PYTHON.0 * PYTHON.1, NODE.0 * NODE.1, RUST.0 * RUST.1]);
    assert_eq!(lines.len(), 2 * all);
}

#[test]
#[should_panic(expected = "two at a time")]
fn the_check_sees_two_at_a_time() {
    check("+ 1 python\n+ 2 node\n- 1 python\n- 2 node\n", 2);
}

#[test]
#[should_panic(expected = "came after")]
fn the_check_sees_a_token_that_falls() {
    check("+ 2 python\n- 2 python\n+ 1 node\n- 1 node\n", 2);
}
