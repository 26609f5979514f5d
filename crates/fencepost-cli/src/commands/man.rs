//! `fencepost man`: a manual page for the command and for each verb; or all of them as one page of the handbook.

use std::io::Write;

use crate::args::{Man, grammar};
use crate::commands::reference;
use crate::exit_code::ExitCode;
use crate::failure::Failure;

pub(crate) fn man(arguments: &Man) -> Result<ExitCode, Failure> {
    let Some(dir) = &arguments.dir else {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(reference::page(grammar()).as_bytes())?;
        stdout.flush()?;
        return Ok(ExitCode::DONE);
    };
    let wrong = |error| Failure::ours(&format!("cannot write manual pages to {}", dir.display()), error);
    std::fs::create_dir_all(dir).map_err(wrong)?;
    clap_mangen::generate_to(grammar(), dir).map_err(wrong)?;
    Ok(ExitCode::DONE)
}
