//! `fencepost ls`: locks, in name order.

use fencepost::{Blocking, LockState};
use serde::Serialize;

use super::state::{StateData, or_dash, span, token};
use crate::args::Ls;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::table;
use crate::settings::Settings;

#[derive(Serialize)]
struct Listing {
    locks: Vec<StateData>,
}

pub(crate) fn ls(arguments: &Ls, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut feed = settings.open()?.list(&arguments.prefix);
    let mut states = Vec::new();
    while arguments.limit.is_none_or(|limit| states.len() < limit) {
        let Some(state) = feed.next().block() else { break };
        states.push(state?);
    }
    let data = Listing { locks: states.iter().map(StateData::from).collect() };
    settings.output.answer(data, || {
        let head = ["NAME", "STATE", "HOLDER", "TOKEN", "HELD", "EXPIRES IN", "WAITING"];
        table(&head, states.iter().map(row).collect())
    })?;
    Ok(ExitCode::DONE)
}

fn row(state: &LockState) -> Vec<String> {
    let first = state.holders.first();
    let others = match state.holders.len() {
        0 | 1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    let kind = first.map_or("free", |holder| if holder.shared { "shared" } else { "held" });
    vec![
        state.name.clone(),
        kind.into(),
        or_dash(first, |holder| format!("{}{others}", holder.label)),
        or_dash(first.and_then(token), |token| token),
        or_dash(first.and_then(|holder| holder.held_for), span),
        or_dash(first.and_then(|holder| holder.expires_in), span),
        state.waiters.len().to_string(),
    ]
}
