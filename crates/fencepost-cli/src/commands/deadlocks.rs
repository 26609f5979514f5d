//! `fencepost deadlocks`: who waits for whom in a circle.

use fencepost::{Blocking, LockState};
use serde::Serialize;

use super::state::{StateData, mode, or_dash, span, token};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::table;
use crate::settings::Settings;

#[derive(Serialize)]
struct Deadlocks {
    /// Of each cycle the locks: the holder of one waits for the next.
    cycles: Vec<Vec<StateData>>,
}

pub(crate) fn deadlocks(settings: &Settings) -> Result<ExitCode, Failure> {
    let cycles = settings.locks()?.deadlocks().block()?;
    let data = Deadlocks { cycles: cycles.iter().map(|cycle| cycle.iter().map(StateData::from).collect()).collect() };
    settings.output.answer(data, || match cycles.is_empty() {
        true => "no deadlock\n".into(),
        false => cycles.iter().enumerate().map(text).collect::<Vec<_>>().join("\n"),
    })?;
    Ok(if cycles.is_empty() { ExitCode::DONE } else { ExitCode::FOUND })
}

/// The holder of each lock waits for the next one below it, and that of the last for the first.
fn text((number, cycle): (usize, &Vec<LockState>)) -> String {
    let mut rows = Vec::new();
    for lock in cycle {
        for holder in &lock.holders {
            let (token, held) = (or_dash(token(holder), |token| token), or_dash(holder.held_for, span));
            rows.push(vec![lock.name.clone(), "holds".into(), holder.label.clone(), mode(holder.shared), token, held]);
        }
        for waiter in &lock.waiters {
            let (mode, waited) = (mode(waiter.shared), span(waiter.waited));
            rows.push(vec![lock.name.clone(), "waits".into(), waiter.label.clone(), mode, "-".into(), waited]);
        }
    }
    let locks = cycle.iter().map(|lock| lock.name.as_str()).collect::<Vec<_>>().join(" -> ");
    let first = cycle.first().map(|lock| lock.name.as_str()).unwrap_or_default();
    format!(
        "deadlock {}: {locks} -> {first}\n\n{}",
        number + 1,
        table(&["LOCK", "", "WHO", "MODE", "TOKEN", "FOR"], rows)
    )
}
