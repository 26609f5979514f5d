//! Everything that the program can say, for an editor: help texts, and each sentence in the sources, by file.
//!
//! `cargo test -p fencepost-cli --test cli catalogue -- --nocapture` prints it; it is kept in `target/catalogue.txt` too.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Place;

/// Sources whose sentences people read; tests and drawings are not among them.
const SOURCES: [&str; 6] = [
    "crates/fencepost-cli/src",
    "crates/fencepost/src",
    "crates/fencepost-core/src",
    "crates/fencepost-server/src",
    "crates/fencepost-sql/src",
    "backends",
];

/// A sentence has as many words as this.
const WORDS_MIN: usize = 3;

/// Words that a stranger stumbles over, each with what to write instead.
const UNCLEAR: [(&str, &str); 13] = [
    ("whoever", "name the subject: a client, the next call, an operator"),
    ("Whoever", "name the subject: a client, the next call, an operator"),
    ("so long", "say how long, or: at most, for this time"),
    ("so many", "say how many, or: N"),
    ("keeps still", "does not vote"),
    ("keep still", "do not vote"),
    ("mend ", "fix"),
    ("mends ", "fixes"),
    ("in earnest", "for real data"),
    ("thrown out", "released by force"),
    ("has forgotten", "lost its memory"),
    ("in the line", "in the queue"),
    ("watchdog's business", "a lock is renewed while the work runs"),
];

#[test]
fn catalogue_of_messages() {
    let mut catalogue = String::new();
    for (title, text) in helps() {
        let _ = writeln!(catalogue, "=== {title} --help\n{text}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root");
    let (mut sentences, mut unclear) = (0, Vec::new());
    for file in sources(&root) {
        let text = fs::read_to_string(&file).expect("a source");
        let name = file.strip_prefix(&root).expect("below the root").display();
        let found = literals(product(&text)).into_iter().filter(|literal| is_sentence(literal));
        let found: Vec<String> = found.map(|literal| literal.replace('\n', " ")).collect();
        if !found.is_empty() {
            let _ = writeln!(catalogue, "=== {name}");
        }
        for sentence in &found {
            let _ = writeln!(catalogue, "- {sentence}");
            let words = UNCLEAR.iter().filter(|(word, _)| sentence.contains(word));
            unclear.extend(words.map(|(word, better)| format!("{name}: {word:?} ({better}): {sentence}")));
        }
        sentences += found.len();
    }
    for (title, text) in helps() {
        let words = UNCLEAR.iter().filter(|(word, _)| text.contains(word));
        unclear.extend(words.map(|(word, better)| format!("{title} --help: {word:?} ({better})")));
    }
    println!("{catalogue}");
    fs::write(root.join("target/catalogue.txt"), &catalogue).expect("our own file");
    assert!(sentences > 500 && catalogue.contains("cannot write the output"), "{sentences} sentences were found");
    assert!(unclear.is_empty(), "write these in other words:\n{}", unclear.join("\n"));
}

/// The help of every command.
fn helps() -> Vec<(String, String)> {
    let place = Place::new();
    let help = |words: &[&str]| {
        let done = place.fencepost([words, &["--help"]].concat()).end().with_code(0);
        (["fencepost", &words.join(" ")].join(" ").trim().to_owned(), done.stdout)
    };
    let (title, whole) = help(&[]);
    let listed = whole.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("commands");
    let is_command = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let verbs = listed.lines().filter(is_command).filter_map(|line| line.split_whitespace().next());
    let verbs: Vec<&str> = verbs.filter(|verb| *verb != "help").collect();
    assert!(verbs.len() > 15, "{verbs:?}");
    let mut helps: Vec<_> = verbs.iter().map(|verb| help(&[verb])).collect();
    helps.insert(0, (title, whole));
    helps
}

fn sources(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    SOURCES.iter().for_each(|folder| collect(&root.join(folder), &mut files));
    files.sort();
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let is_test = path.file_name().is_some_and(|name| name == "tests" || name == "tests.rs" || name == "target");
        match path.is_dir() {
            _ if is_test => {}
            true => collect(&path, files),
            false if path.extension().is_some_and(|ending| ending == "rs") => files.push(path),
            false => {}
        }
    }
}

/// A source without its tests, which stand at its end.
fn product(source: &str) -> &str {
    source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default()
}

/// What stands between quotes, outside of comments.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        rest = match from.as_bytes() {
            [b'/', b'/', ..] => from.split_once('\n').map_or("", |(_, rest)| rest),
            [b'\'', b'"', b'\'', ..] => &from[3..],
            [b'\'', b'\\', ..] => from.get(3..).unwrap_or_default(),
            [b'"', ..] => {
                let hashes = before.len() - before.trim_end_matches('#').len();
                let is_raw = before[..before.len() - hashes].ends_with('r');
                let (literal, rest) = if is_raw { raw(from, hashes) } else { quoted(from) };
                found.push(literal);
                rest
            }
            _ => &from[1..],
        };
    }
    found
}

fn raw(from: &str, hashes: usize) -> (String, &str) {
    let end = format!("\"{}", "#".repeat(hashes));
    from[1..].split_once(&end).map_or((String::new(), ""), |(literal, rest)| (literal.to_owned(), rest))
}

fn quoted(from: &str) -> (String, &str) {
    let (mut literal, mut letters) = (String::new(), from.char_indices().skip(1).peekable());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (literal, &from[at + 1..]),
            '\\' => match letters.next() {
                // A line that goes on: its indentation is no part of it.
                Some((_, '\n')) => while letters.next_if(|(_, letter)| letter.is_whitespace()).is_some() {},
                Some((_, 'n')) => literal.push('\n'),
                Some((_, other)) => literal.push(other),
                None => break,
            },
            other => literal.push(other),
        }
    }
    (literal, "")
}

/// Words for people: not a statement, a script, a path or a key.
fn is_sentence(literal: &str) -> bool {
    let is_word = |word: &&str| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_lowercase());
    let words = literal.split_whitespace().map(|word| word.trim_matches([',', '.', ':', ';', '(', ')', '?']));
    let is_code = ["SELECT ", "UPDATE ", "INSERT ", "CREATE ", "local ", "BUG:", "DELETE ", "{{"];
    words.filter(|word| is_word(word)).count() >= WORDS_MIN && !is_code.iter().any(|start| literal.contains(start))
}

#[test]
fn literals_are_found_outside_of_comments() {
    let source = "say(\"one two\"); // \"not this\"\nlet c = '\"'; say(r#\"a \"b\" c\"#);\nsay(\"x \\\n    y\\n\");";
    assert_eq!(literals(source), ["one two", "a \"b\" c", "x y\n"]);
}
