//! Measures Fencepost: every figure beside a baseline of the same run, because a shared machine is noisy.
//!
//! The parts, in reading order:
//! - `workloads`: what is measured, one file each;
//! - `runner`: rounds, medians, the table;
//! - `contest`: tasks that lock and unlock, one loop for all `kinds` of locks on Redis `nodes`;
//! - `process`: this program again, as another process;
//! - `raw_commits`: the baseline of everything that is stored in a file;
//! - `site`: the folder to measure in, and the facts about the machine.

mod contest;
mod kinds;
mod nodes;
mod process;
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
const USAGE: &str = "usage: fencepost-bench [--quick] [--save NAME] [WORKLOAD…]";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, rest)) if first == process::WORKER => workloads::work(rest),
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
    let (quick, save, chosen) = choose(args)?;
    let site = Site::new()?;
    let mut text = site.heading(args)?;
    for workload in chosen {
        text.push_str(&runner::run(workload, &site, quick)?);
    }
    text.push_str(&site.closing()?);
    print!("{text}");
    if let Some(name) = save {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
        fs::create_dir_all(folder)?;
        fs::write(format!("{folder}/{name}.md"), text)?;
    }
    Ok(())
}

/// Whether one round will do, under which name to keep what is said, and which workloads. A part of them, or a quick
/// look, is kept only if asked for.
fn choose(args: &[String]) -> Outcome<(bool, Option<String>, Vec<&'static Workload>)> {
    let (quick, args) = match args {
        [flag, rest @ ..] if flag == "--quick" => (true, rest),
        args => (false, args),
    };
    let (save, names) = match args {
        [flag, name, rest @ ..] if flag == "--save" && !name.contains('/') => (Some(name.clone()), rest),
        names => (None, names),
    };
    if names.is_empty() {
        let all = save.or((!quick).then(|| ALL.to_owned()));
        return Ok((quick, all, workloads::ALL.iter().collect()));
    }
    let chosen: Outcome<Vec<&Workload>> = names.iter().map(|name| find(name)).collect();
    Ok((quick, save, chosen?))
}

fn find(name: &str) -> Outcome<&'static Workload> {
    workloads::find(name).ok_or_else(|| {
        let known: Vec<&str> = workloads::ALL.iter().map(|workload| workload.name).collect();
        format!("no workload {name:?}; there are {}\n{USAGE}", known.join(", ")).into()
    })
}
