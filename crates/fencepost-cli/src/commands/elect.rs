//! `fencepost elect`: a command that runs only while we lead.

use fencepost::config::Setting;

use super::run::{Session, store_wait};
use crate::args::{Elect, Run};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::report::Record;
use crate::settings::{Settings, checked_name};

pub(crate) fn elect(arguments: Elect, mut settings: Settings) -> Result<ExitCode, Failure> {
    checked_name(&arguments.name)?;
    if let Some(ttl) = arguments.ttl {
        settings.config.ttl = Setting::by_flag(ttl, "--ttl");
    }
    let (run, payload) = as_run(arguments);
    let mut record = Record::new(&run.name);
    let wait = store_wait(&run, settings.config.ttl.value);
    Session::open(&run, Some(&payload), wait, &settings, &mut record).and_then(Session::run)
}

/// The same as a `run` that waits for ever, and what the leader publishes.
fn as_run(arguments: Elect) -> (Run, String) {
    let Elect { payload, ttl, label, on_lost, kill_after, name, command } = arguments;
    let run = Run { ttl, label, on_lost, kill_after, ..Run::of(name, command) };
    (run, payload)
}
