//! `fencepost show`: who has a lock, who is in line.

use fencepost::{Blocking, Holder, LockState, Locks, StoreError, Waiter};
use serde::Serialize;

use super::state::{StateData, WaiterData, mode, or_dash, span, token};
use super::watch::{Mark, look};
use crate::args::Show;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::table;
use crate::settings::{Settings, checked_name};

pub(crate) fn show(arguments: &Show, settings: &Settings) -> Result<ExitCode, Failure> {
    checked_name(&arguments.name)?;
    let (locks, output) = (settings.locks()?, settings.output);
    let mut known = None;
    let mut is_new = |mark: Mark| known.replace(mark.clone()) != Some(mark);
    match arguments.permits {
        Some(permits) => look(
            &arguments.watch,
            output,
            || Semaphore::inspect(&locks, &arguments.name, permits),
            |semaphore| match is_new(semaphore.mark()) {
                true => output.answer(SemaphoreData::from(&semaphore), || semaphore.text()),
                false => Ok(()),
            },
        ),
        None => look(
            &arguments.watch,
            output,
            || locks.inspect(&arguments.name).block(),
            |state| match is_new(Mark::of(&state)) {
                true => output.answer(StateData::from(&state), || text(&state)),
                false => Ok(()),
            },
        ),
    }
}

/// A semaphore: a lock per permit, and one in whose line those wait who found none.
struct Semaphore {
    name: String,
    slots: Vec<LockState>,
    waiters: Vec<Waiter>,
}

#[derive(Serialize)]
struct SemaphoreData<'a> {
    name: &'a str,
    slots: Vec<StateData>,
    waiters: Vec<WaiterData>,
}

impl Semaphore {
    fn inspect(locks: &Locks, name: &str, permits: u32) -> Result<Self, StoreError> {
        let slots = (0..permits).map(|slot| locks.inspect(&format!("{name}/permit#{slot}")).block());
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        let gate = locks.inspect(&format!("{name}/permit#line")).block()?;
        // Who has the gate stands in the lines of the slots; the others come after.
        let at_slots = slots.iter().map(|slot| &slot.waiters).max_by_key(|waiters| waiters.len());
        let waiters = at_slots.into_iter().flatten().chain(&gate.waiters).cloned().collect();
        Ok(Self { name: name.to_owned(), slots, waiters })
    }

    fn mark(&self) -> Mark {
        Mark::new(self.slots.iter().flat_map(|slot| &slot.holders), &self.waiters)
    }

    fn text(&self) -> String {
        let held = self.slots.iter().filter(|slot| !slot.holders.is_empty()).count();
        let mut text = format!("{}: {held} of {} permits held\n\n", self.name, self.slots.len());
        let rows = self.slots.iter().enumerate().map(|(slot, state)| {
            let holder = state.holders.first();
            let holder_text = |text: fn(&Holder) -> Option<String>| or_dash(holder.and_then(text), |text| text);
            vec![
                slot.to_string(),
                holder_text(|holder| Some(holder.label.clone())),
                holder_text(token),
                holder_text(|holder| holder.held_for.map(span)),
                holder_text(|holder| holder.expires_in.map(span)),
            ]
        });
        text.push_str(&table(&["SLOT", "HOLDER", "TOKEN", "HELD", "EXPIRES IN"], rows.collect()));
        text.push_str(&line(&self.waiters));
        text
    }
}

impl<'a> From<&'a Semaphore> for SemaphoreData<'a> {
    fn from(semaphore: &'a Semaphore) -> Self {
        Self {
            name: &semaphore.name,
            slots: semaphore.slots.iter().map(StateData::from).collect(),
            waiters: semaphore.waiters.iter().map(WaiterData::from).collect(),
        }
    }
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
    text.push_str(&line(&state.waiters));
    text
}

/// Who is in line; nothing if nobody is.
fn line(waiters: &[Waiter]) -> String {
    if waiters.is_empty() {
        return String::new();
    }
    let rows = waiters.iter().enumerate().map(|(place, waiter)| {
        vec![(place + 1).to_string(), waiter.label.clone(), mode(waiter.shared), span(waiter.waited)]
    });
    format!("\n{}", table(&["PLACE", "WAITING", "MODE", "WAITED"], rows.collect()))
}
