//! Watching: what is told again and again, until interrupted, through times in which the store does not answer.

use fencepost::{Holder, LockState, StoreError, Waiter};

use super::state::token;
use crate::args::Watch;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;

/// Whether the store answers, told once each time that it does not.
pub(super) struct Away {
    output: Output,
    is_away: bool,
}

impl Away {
    pub(super) fn new(output: Output) -> Self {
        Self { output, is_away: false }
    }

    /// What the store said; `None`: nothing, for now.
    pub(super) fn heard<T>(&mut self, answer: Result<T, StoreError>) -> Result<Option<T>, Failure> {
        match answer {
            Ok(answer) => {
                self.is_away = false;
                Ok(Some(answer))
            }
            Err(error) if !error.is_retryable() => Err(error.into()),
            Err(error) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    self.output.note(&format!("watching on: {error}"));
                }
                Ok(None)
            }
        }
    }
}

/// Looks once, or again and again.
pub(super) fn look<T>(
    watch: &Watch,
    output: Output,
    mut read: impl FnMut() -> Result<T, StoreError>,
    mut tell: impl FnMut(T) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    if !watch.watch {
        tell(read()?)?;
        return Ok(ExitCode::DONE);
    }
    let mut away = Away::new(output);
    loop {
        if let Some(seen) = away.heard(read())? {
            tell(seen)?;
        }
        std::thread::sleep(watch.delay);
    }
}

/// What makes two looks at a lock differ. Ages and times left change by themselves.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Mark {
    holders: Vec<(String, Option<String>)>,
    waiters: Vec<String>,
}

impl Mark {
    pub(super) fn of(state: &LockState) -> Self {
        Self::new(&state.holders, &state.waiters)
    }

    pub(super) fn new<'a>(
        holders: impl IntoIterator<Item = &'a Holder>,
        waiters: impl IntoIterator<Item = &'a Waiter>,
    ) -> Self {
        Self {
            holders: holders.into_iter().map(|holder| (holder.label.clone(), token(holder))).collect(),
            waiters: waiters.into_iter().map(|waiter| waiter.label.clone()).collect(),
        }
    }
}
