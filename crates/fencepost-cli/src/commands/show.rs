//! `fencepost show`: who has a lock, who is in line.

use fencepost::{Blocking, LockState};

use super::state::{StateData, mode, or_dash, span, token};
use crate::args::Show;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::table;
use crate::settings::{Settings, checked_name};

pub(crate) fn show(arguments: &Show, settings: &Settings) -> Result<ExitCode, Failure> {
    checked_name(&arguments.name)?;
    let state = settings.open()?.inspect(&arguments.name).block()?;
    settings.output.answer(StateData::from(&state), || text(&state))?;
    Ok(ExitCode::DONE)
}

fn text(state: &LockState) -> String {
    let kind = if state.holders.is_empty() { "free" } else { "held" };
    let last = or_dash(state.last_token, |token| token.to_string());
    let mut text = format!("{}: {kind}, last token {last}\n", state.name);
    if !state.holders.is_empty() {
        let rows = state.holders.iter().map(|holder| {
            let expires_in = or_dash(holder.expires_in, span);
            let held = or_dash(holder.held_for, span);
            vec![holder.label.clone(), mode(holder.shared), or_dash(token(holder), |token| token), held, expires_in]
        });
        text.push('\n');
        text.push_str(&table(&["HOLDER", "MODE", "TOKEN", "HELD", "EXPIRES IN"], rows.collect()));
    }
    if !state.waiters.is_empty() {
        let rows = state.waiters.iter().enumerate().map(|(place, waiter)| {
            vec![(place + 1).to_string(), waiter.label.clone(), mode(waiter.shared), span(waiter.waited)]
        });
        text.push('\n');
        text.push_str(&table(&["PLACE", "WAITING", "MODE", "WAITED"], rows.collect()));
    }
    text
}
