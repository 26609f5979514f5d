//! `fencepost completions`: what a shell needs to complete our commands.

use std::io::Write;

use crate::args::{Completions, grammar};
use crate::exit_code::ExitCode;
use crate::failure::Failure;

pub(crate) fn completions(arguments: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut grammar(), "fencepost", &mut script);
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&script)?;
    stdout.flush()?;
    Ok(ExitCode::DONE)
}
