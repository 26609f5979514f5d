//! The handbook keeps its word: every block of code in `docs` and in the README is compiled, run or parsed.
//!
//! The language of a block says which, and words behind it what is special:
//!
//! | block | what happens |
//! |---|---|
//! | `rust` | compiled by the doc tests of the crate `fencepost`, which must include the page |
//! | `rust,no_run main` | put into `src/main.rs` of the reader's own crate, which the blocks around it make and run |
//! | `sh` | run, page by page from top to bottom, in a folder of its own; fails on the first code that is not 0 |
//! | `text output` | what the block before it says; `…` is anything, and alone on a line any lines |
//! | `text screen` | a picture in letters: there is nothing to run |
//! | `sh script` | run by `tests/cli/serve.rs`, which says more about it |
//! | `sh not-run` | read by a shell, and its commands by ours, but not run: listed in `blocks.rs`, with the reason |
//! | `crontab` | five fields, and a command that is read as above |
//! | `toml`, `json`, `sql` | parsed; statements are run in a new database |
//! | `python`, `js`, `ts` | read by their own parsers |
//! | others | listed in `languages.rs`, with the reason why nothing here reads them |

#![cfg(feature = "serve")]

mod blocks;
mod languages;
mod shell;
#[path = "../cli/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the command, which need more of it")]
mod support;

use std::thread;

use blocks::{Block, NOT_RUN, pages};
use shell::Stage;

#[test]
fn every_block_is_in_a_language_that_is_checked() {
    let wrong: Vec<String> = pages().iter().flat_map(|page| &page.blocks).filter_map(languages::finding).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = std::fs::read_to_string(blocks::root().join("docs/README.md")).expect("docs/README.md");
    for page in pages() {
        let Some(name) = page.name.strip_prefix("docs/").filter(|name| *name != "README.md") else { continue };
        assert!(contents.contains(&format!("]({name})")), "docs/README.md leads nobody to {name}: give it a line");
    }
}

#[test]
fn rust_is_compiled_with_the_library() {
    let list = include_str!("../../../fencepost/src/lib.rs");
    for page in pages() {
        let has_rust = page.blocks.iter().any(|block| block.language == "rust");
        let included = list.contains(&format!("include_str!(\"../../../{}\")", page.name));
        assert!(
            !has_rust || included,
            "{}: it has Rust: include it in crates/fencepost/src/lib.rs, as the other pages are",
            page.name
        );
    }
}

#[test]
fn data_and_other_languages_are_well_formed() {
    let pages = pages();
    let wrong: Vec<String> = thread::scope(|scope| {
        let blocks = pages.iter().flat_map(|page| &page.blocks);
        let asked: Vec<_> = blocks.map(|block| scope.spawn(|| languages::parse(block))).collect();
        asked.into_iter().filter_map(|one| one.join().expect("it ends").err()).collect()
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn what_is_shown_for_a_shell_does_what_the_page_says() {
    let pages = pages();
    let wrong: Vec<String> = thread::scope(|scope| {
        let shown = pages.iter().filter(|page| page.blocks.iter().any(|block| block.is_run() || block.has("output")));
        let played: Vec<_> = shown.map(|page| scope.spawn(|| Stage::new(page).play())).collect();
        played.into_iter().flat_map(|page| page.join().expect("it ends")).collect()
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// As a newcomer types it, from the root: with progress while it compiles, and with the output that the page shows.
#[test]
fn the_first_command_is_not_silent_and_says_what_the_page_shows() {
    let pages = pages();
    for name in ["README.md", "docs/start.md"] {
        let page = pages.iter().find(|page| page.name == name).expect("the page");
        let [command, shown] = [0, 1].map(|number| &page.blocks[number]);
        assert!(command.is_run() && command.text.starts_with("cargo run -p fencepost-cli -- ") && shown.has("output"));
        let done = shell::as_typed(&command.text);
        assert_eq!(done.code, 0, "{done:?}");
        let (progress, said) = done.stderr.split_at(done.stderr.find("fencepost: ").expect("what it says"));
        assert!(progress.contains("Finished"), "{progress}");
        let (first, rest) = shown.text.split_at(shown.text.find("only I run now").expect("the command's own line"));
        let (own, last) = rest.split_once('\n').expect("a line");
        assert!(shell::is_like(said, &[first, last].concat()) && shell::is_like(&done.stdout, own), "{name}: {done:?}");
    }
}

/// The picture of the README shows what the program says today.
#[test]
fn the_recording_shows_what_its_commands_print() {
    let script = blocks::root().join("docs/images/record.py").display().to_string();
    let python = fencepost_testkit::server::find("python3", "python3").display().to_string();
    let done = support::Place::new().program(&python).arguments([&*script, "--transcript", support::PROGRAM]).end();
    assert_eq!(done.code, 0, "{done:?}");
    let picture = std::fs::read_to_string(blocks::root().join("docs/images/terminal.svg")).expect("the picture");
    let drawn = picture.split_once("<desc id=\"desc\">").and_then(|(_, rest)| rest.split_once("</desc>"));
    let drawn = drawn.expect("a description").0.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    assert_eq!(done.stdout.trim_end(), drawn, "record it anew: docs/images/record.py says how");
}

#[test]
fn what_is_not_run_is_listed_with_a_reason_and_understood_by_the_command() {
    let pages = pages();
    let blocks = || pages.iter().flat_map(|page| &page.blocks).filter(|block| block.has("not-run"));
    let key = |block: &Block| (block.page.clone(), block.text.lines().next().unwrap_or_default().to_owned());
    let is_listed = |(page, line): &(String, String)| {
        NOT_RUN.iter().any(|(listed, start, _)| page == listed && line.starts_with(start))
    };
    let unlisted: Vec<_> = blocks().map(key).filter(|block| !is_listed(block)).collect();
    assert!(unlisted.is_empty(), "say in NOT_RUN why these are not run: {unlisted:?}");
    for (page, start, why) in NOT_RUN {
        let listed = blocks().filter(|block| block.page == *page && block.text.starts_with(start)).count();
        assert_eq!(listed, 1, "{page}: NOT_RUN lists {start:?}, and the page has so many of it");
        println!("not run: {page}: {start}: {why}");
    }
    let lines = pages.iter().flat_map(|page| &page.blocks).filter(|block| block.language == "crontab");
    let wrong: Vec<String> = blocks().chain(lines).flat_map(shell::misunderstood).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
