//! `fencepost check`: the fence for shell scripts.

use fencepost::fence::FenceError;
use fencepost::{Blocking, FencingToken};
use serde::Serialize;

use crate::args::Check;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::settings::{Settings, checked_name};

#[derive(Serialize)]
struct Checked {
    name: String,
    token: String,
    stale: bool,
    /// The newest token granted, where it is newer.
    seen: Option<String>,
}

pub(crate) fn check(arguments: &Check, settings: &Settings) -> Result<ExitCode, Failure> {
    let name = &arguments.name;
    checked_name(name)?;
    let token: FencingToken = arguments.token.parse()?;
    let seen = match settings.locks()?.check(name, token).block() {
        Ok(()) => None,
        Err(FenceError::Stale(stale)) => Some(stale.seen),
        Err(FenceError::Store(error)) => return Err(error.into()),
        Err(other) => return Err(Failure::new(ExitCode::OURS, other.to_string())),
    };
    let data = Checked {
        name: name.clone(),
        token: token.to_string(),
        stale: seen.is_some(),
        seen: seen.map(|seen| seen.to_string()),
    };
    settings.output.answer(data, || match seen {
        Some(seen) => format!("stale: {seen} was granted after {token}"),
        None => format!("{token} is the newest"),
    })?;
    Ok(if seen.is_some() { ExitCode::STALE } else { ExitCode::DONE })
}
