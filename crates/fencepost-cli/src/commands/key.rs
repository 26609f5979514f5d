//! `fencepost key`: a credential for the service.

use fencepost_server::auth::{ApiKey, Scope, key_entry};
use serde::Serialize;

use crate::args::Key;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::settings::Settings;

#[derive(Serialize)]
struct Made {
    principal: String,
    /// The secret: it is nowhere else.
    key: String,
    /// For the file that `serve --auth-file` reads.
    entry: String,
}

pub(crate) fn key(arguments: &Key, settings: &Settings) -> Result<ExitCode, Failure> {
    let scopes = arguments.allow.iter().map(|scope| scope.parse()).collect::<Result<Vec<Scope>, String>>();
    let scopes = scopes.map_err(|why| Failure::new(ExitCode::USAGE, why))?;
    let key = ApiKey::random().map_err(|error| Failure::ours("no random bytes", error))?;
    let entry = key_entry(&arguments.name, &key.digest(), &scopes).map_err(|why| Failure::new(ExitCode::USAGE, why))?;
    let (principal, key) = (arguments.name.clone(), key.expose().to_owned());
    settings.output.note("the key is shown this once; the service keeps its digest only");
    settings.output.answer(Made { principal, key: key.clone(), entry: entry.clone() }, || {
        format!("for the client: {key}\nfor the service's --auth-file:\n\n{entry}")
    })?;
    Ok(ExitCode::DONE)
}
