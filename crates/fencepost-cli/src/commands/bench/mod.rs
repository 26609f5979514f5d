//! `fencepost bench`: how fast locks are on the user's own store, and how it compares with another.
//!
//! `plan` says what is measured for how long, `workload` what clients do, `subject` runs them against one store,
//! `round` and `findings` have what came out of it, and `answer`, `text` and `html` tell it.

mod answer;
mod findings;
mod html;
mod plan;
mod round;
mod stop;
mod subject;
mod text;
mod trouble;
mod warnings;
mod workload;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use answer::Answer;
use fencepost::config::{Config, Setting};
use findings::{Findings, Machine, Measured};
use plan::Plan;
use stop::Interrupt;
use subject::Subject;

use crate::args::Bench;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::report::Report;
use crate::settings::Settings;

/// What all names begin with, before a part of their own for each run.
const PREFIX: &str = "fencepost-bench/";

pub(crate) fn bench(arguments: &Bench, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut configs = vec![settings.config.clone()];
    configs.extend(arguments.vs.as_ref().map(|url| {
        let mut other = settings.config.clone();
        other.store = Setting::by_flag(url.clone(), "--vs");
        other
    }));
    let stores = u32::try_from(configs.len()).expect("BUG: two at most");
    let plan = Plan::new(arguments, arguments.ttl.unwrap_or(settings.config.ttl.value), stores)
        .map_err(|invalid| settings.typed.restore(invalid))?;
    let page = arguments.html.as_deref().map(|file| Report::prepare("--html", file)).transpose()?;
    let machine = Machine::look();
    let interrupt = Interrupt::listen()?;
    settings.say_if_unset();
    let open = |config: &Config| {
        let number = RandomState::new().build_hasher().finish();
        Subject::open(config, format!("{PREFIX}{number:016x}/"), &plan)
    };
    let mut subjects = configs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    measure(&plan, &mut subjects, &interrupt, &mut Progress::new(settings.output));
    let silent = subjects.iter().find(|subject| !subject.has_measured()).map(|subject| subject.troubles.code());
    let stores = subjects.iter_mut().map(|subject| Measured::of(subject, &plan)).collect();
    let findings = Findings { plan, stores, machine, interrupted: interrupt.signal().is_some() };
    let warnings = warnings::warnings(&findings);
    // First: whoever reads our output may go away.
    if let Some(page) = page {
        page.put(&html::page(&findings, &warnings)).map_err(|error| Failure::ours("--html", error))?;
    }
    settings.output.answer(Answer::new(&findings, &warnings), || text::text(&findings, &warnings))?;
    Ok(match (interrupt.signal(), silent) {
        (Some(signal), _) => ExitCode::by_signal(signal as i32),
        (None, Some(code)) => code,
        (None, None) => ExitCode::DONE,
    })
}

/// Round after round; in each, every workload on every store. Who goes first changes, so that nobody always follows.
fn measure(plan: &Plan, subjects: &mut [Subject], interrupt: &Interrupt, progress: &mut Progress) {
    let mut done = Duration::ZERO;
    for round in 0..plan.rounds {
        for (number, &workload) in plan.workloads.iter().enumerate() {
            for place in 0..subjects.len() {
                if interrupt.signal().is_some() {
                    progress.note("ending early: giving back what is held; once more to end at once");
                    return;
                }
                let count = subjects.len();
                let subject = &mut subjects[(place + round as usize) % count];
                let what = format!("round {} of {}: {}", round + 1, plan.rounds, workload.told(plan.clients));
                let mut show = |passed: Duration| progress.show((done + passed).div_duration_f64(plan.length), &what);
                subject.take_turn(number, workload, plan.turn, interrupt, &mut show);
                done += plan.turn;
            }
        }
    }
}
