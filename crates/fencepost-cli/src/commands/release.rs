//! `fencepost release --force`: ends somebody's hold. `--ask` only asks for it.

use fencepost::Blocking;
use serde::Serialize;

use super::state::HolderData;
use crate::args::Release;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::settings::{Settings, checked_name};

#[derive(Serialize)]
struct Released {
    name: String,
    holder: Option<HolderData>,
}

pub(crate) fn release(arguments: &Release, settings: &Settings) -> Result<ExitCode, Failure> {
    let name = &arguments.name;
    checked_name(name)?;
    let (done, holder) = match (arguments.force, arguments.ask) {
        (true, _) => ("is released", settings.locks()?.force_release(name, &arguments.reason).block()?),
        (_, true) => ("was asked for", settings.locks()?.ask_to_yield(name, &arguments.note).block()?),
        (false, false) => {
            let why = "release takes a lock away from whoever has it, and their command is ended; say --force if you \
                       mean it, or --ask to leave it to them (a run releases its own lock when its command ends)";
            return Err(Failure::new(ExitCode::USAGE, why));
        }
    };
    let data = Released { name: name.clone(), holder: holder.as_ref().map(HolderData::from) };
    settings.output.answer(data, || match &holder {
        Some(holder) => format!("{name} was held by {holder}; it {done}"),
        None => format!("{name} was free"),
    })?;
    Ok(ExitCode::DONE)
}
