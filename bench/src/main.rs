//! Measures Fencepost: every figure beside a baseline of the same run, because a shared machine is noisy.
//!
//! The parts, in reading order:
//! - `workloads`: what is measured, one file each;
//! - `runner`: rounds, medians, the table;
//! - `contest`: tasks that lock and unlock, one loop for all `kinds` of locks on Redis `nodes`;
//! - `peers`: all lock libraries in one run, with a page of its own;
//! - `process`: this program again, as another process;
//! - `raw_commits`: the baseline of everything that is stored in a file;
//! - `site`: the folder to measure in, and the facts about the machine.

mod contest;
mod figures;
mod interrupt;
mod kinds;
mod nodes;
mod peers;
mod process;
mod progress;
mod raw_commits;
mod runner;
mod site;
mod wire;
mod workloads;

use std::process::ExitCode;
use std::{env, fs};

use runner::Workload;
use site::Site;

/// Whatever went wrong, in words: a measurement that fails is not repaired.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Where a run of all workloads is kept.
const ALL: &str = "foundation";
/// In the place of a workload: all lock libraries in one run. It is kept under the same name.
const PEERS: &str = "peers";
const SETUP: &str = "--setup";
const USAGE: &str = "usage: fencepost-bench [--quick] [--save NAME] [WORKLOAD…]
       fencepost-bench [--quick] [--save NAME] peers
       fencepost-bench --setup    (installs the peers of other languages)";
const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results");

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, rest)) if first == process::WORKER => workloads::work(rest),
        Some((first, [])) if first == SETUP => kinds::install(),
        _ => measure(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fencepost-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &[String]) -> Outcome<()> {
    let (quick, args_left) = match args {
        [flag, rest @ ..] if flag == "--quick" => (true, rest),
        args => (false, args),
    };
    let (save, names) = match args_left {
        [flag, name, rest @ ..] if flag == "--save" && !name.contains('/') => (Some(name.clone()), rest),
        names => (None, names),
    };
    interrupt::watch()?;
    let site = Site::new()?;
    let mut text = site.heading(args)?;
    // A part of the workloads, or a quick look, is kept only if asked for.
    let kept = |name: &str| save.clone().or((!quick).then(|| name.to_owned()));
    let save = if names == [PEERS] {
        let page = peers::run(quick)?;
        text += &page.text;
        let save = kept(PEERS);
        for (name, picture) in page.plots.iter().filter(|_| save.is_some()) {
            fs::write(format!("{RESULTS}/peers-{name}.svg"), picture)?;
        }
        save
    } else {
        let all: Vec<String> = workloads::ALL.iter().map(|workload| workload.name.to_owned()).collect();
        for name in if names.is_empty() { &all } else { names } {
            text += &runner::run(find(name)?, &site, quick)?;
        }
        if names.is_empty() { kept(ALL) } else { save }
    };
    text += &site.closing()?;
    print!("{text}");
    if let Some(name) = save {
        fs::write(format!("{RESULTS}/{name}.md"), text)?;
    }
    Ok(())
}

fn find(name: &str) -> Outcome<&'static Workload> {
    workloads::find(name).ok_or_else(|| {
        let known: Vec<&str> = workloads::ALL.iter().map(|workload| workload.name).collect();
        format!("no workload {name:?}; there are {}\n{USAGE}", known.join(", ")).into()
    })
}
