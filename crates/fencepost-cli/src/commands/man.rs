//! `fencepost man`: a manual page for the command and for each verb.

use crate::args::{Man, grammar};
use crate::exit_code::ExitCode;
use crate::failure::Failure;

pub(crate) fn man(arguments: &Man) -> Result<ExitCode, Failure> {
    let wrong = |error| Failure::ours(&format!("cannot write manual pages to {}", arguments.dir.display()), error);
    std::fs::create_dir_all(&arguments.dir).map_err(wrong)?;
    clap_mangen::generate_to(grammar(), &arguments.dir).map_err(wrong)?;
    Ok(ExitCode::DONE)
}
