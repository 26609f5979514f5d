//! The long search: runs seeds for as long as told, with a bar; or one seed again, with its log.

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost_sim::{Flaw, Mode, Plan, Tally, campaign, evidence, explain, outdated, run};

const HELP: &str = "\
prove --minutes M [--from SEED] [--record]            search for so long, and write down what came of it
prove --seed N [--mode strict|wild|calm] [--flaw F]   run one seed, and tell what went wrong
prove --seed N --log                                  and its whole log
prove --evidence                                      print the page of evidence
prove --check FILE                                    whether that page says what is so";

/// What was asked for.
#[derive(Default)]
struct Wish {
    minutes: Option<f64>,
    from: u64,
    seed: Option<u64>,
    mode: Option<Mode>,
    flaw: Option<Flaw>,
    log: bool,
    evidence: bool,
    record: bool,
    check: Option<String>,
}

/// Where the longest search is written down.
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/long_run.txt");

fn main() -> ExitCode {
    let wish = match wish(std::env::args().skip(1)) {
        Ok(wish) => wish,
        Err(why) => {
            eprintln!("prove: {why}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if wish.evidence {
        print!("{}", evidence(|what| eprintln!("{what} ...")));
        return ExitCode::SUCCESS;
    }
    if let Some(path) = &wish.check {
        return if is_current(path) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let good = match (wish.seed, wish.minutes) {
        (Some(seed), _) => one(seed, &wish),
        (None, Some(minutes)) => search(minutes, &wish),
        (None, None) => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wish(mut arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut wish = Wish::default();
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{flag} needs a value"));
        let bad = |value: &str| format!("{flag} does not take {value:?}");
        match flag.as_str() {
            "--minutes" => wish.minutes = Some(value().and_then(|text| text.parse().map_err(|_| bad(&text)))?),
            "--from" => wish.from = value().and_then(|text| text.parse().map_err(|_| bad(&text)))?,
            "--seed" => wish.seed = Some(value().and_then(|text| text.parse().map_err(|_| bad(&text)))?),
            "--flaw" => wish.flaw = Some(value().and_then(|text| Flaw::named(&text).ok_or_else(|| bad(&text)))?),
            "--mode" => {
                let text = value()?;
                let mode = [("strict", Mode::Strict), ("wild", Mode::Wild), ("calm", Mode::Calm)];
                let mode = mode.into_iter().find(|(name, _)| *name == text);
                wish.mode = Some(mode.map(|(_, mode)| mode).ok_or_else(|| bad(&text))?);
            }
            "--log" => wish.log = true,
            "--evidence" => wish.evidence = true,
            "--record" => wish.record = true,
            "--check" => wish.check = Some(value()?),
            _ => return Err(format!("no such flag: {flag}")),
        }
    }
    Ok(wish)
}

fn plan(seed: u64, wish: &Wish) -> Plan {
    Plan::new(seed, wish.mode.unwrap_or_else(|| Plan::mode_of(seed)), wish.flaw)
}

fn one(seed: u64, wish: &Wish) -> bool {
    let plan = plan(seed, wish);
    if wish.log {
        println!("{}", run(&plan, true).log);
    }
    match explain(&plan) {
        Some(text) => println!("{text}"),
        None => println!("seed {seed} ({:?}) breaks no rule", plan.mode),
    }
    explain(&plan).is_none()
}

fn search(minutes: f64, wish: &Wish) -> bool {
    let (began, span) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let drawn = AtomicU64::new(0);
    let tally = campaign(
        wish.from..u64::MAX,
        |seed| plan(seed, wish),
        |tally| {
            let elapsed = began.elapsed();
            let beat = elapsed.as_millis() as u64 / 500;
            if drawn.swap(beat, Ordering::Relaxed) != beat {
                draw(elapsed.as_secs_f64() / span.as_secs_f64(), tally);
            }
            elapsed >= span
        },
    );
    if stderr().is_terminal() {
        eprintln!();
    }
    let came_to = format!("{tally}, in {:.1} minutes", began.elapsed().as_secs_f64() / 60.0);
    println!("{came_to}");
    if wish.record
        && let Err(error) = std::fs::write(RECORD, came_to + "\n")
    {
        eprintln!("prove: {RECORD}: {error}");
        return false;
    }
    for (seed, ..) in tally.violations.iter().take(3) {
        println!("{}", explain(&plan(*seed, wish)).unwrap_or_default());
    }
    tally.violations.is_empty()
}

fn is_current(path: &str) -> bool {
    let page = match std::fs::read_to_string(path) {
        Ok(page) => page,
        Err(error) => {
            eprintln!("prove: {path}: {error}");
            return false;
        }
    };
    let wrong = outdated(&page);
    if !wrong.is_empty() {
        eprintln!("{path} is not current: run `cargo xtask evidence` ({})", wrong.join("; "));
    }
    wrong.is_empty()
}

/// A bar, where somebody can see it.
fn draw(part: f64, tally: &Tally) {
    if !stderr().is_terminal() {
        return;
    }
    let full = (part.min(1.0) * 30.0) as usize;
    let (done, left) = ("█".repeat(full), "·".repeat(30 - full));
    let (seeds, events, wrong) = (tally.seeds, tally.events / 1_000_000, tally.violations.len());
    let _ = write!(
        stderr(),
        "\r{done}{left} {:>3.0} %  {seeds} seeds, {events} M events, {wrong} violations ",
        part * 100.0
    );
}
