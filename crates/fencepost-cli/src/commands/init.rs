//! `fencepost init`: makes a new store ready.

use fencepost::Blocking;
use serde::Serialize;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::settings::Settings;

#[derive(Serialize)]
struct Ready {
    store: String,
}

pub(crate) fn init(settings: &Settings) -> Result<ExitCode, Failure> {
    let url = &settings.config.store.value;
    fencepost::init(url).block()?;
    let store = settings.config.store_redacted();
    settings.output.answer(Ready { store: store.clone() }, || format!("{store} is ready"))?;
    Ok(ExitCode::DONE)
}
