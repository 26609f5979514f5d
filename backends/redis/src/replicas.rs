//! Waiting until replicas have what the master granted.
//!
//! WAIT answers for the writes of the connection that sends it, and of no other. So it goes right behind the script, in
//! the same write; and a grant that another connection made, by handing over, is asked for once more before it counts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_core::store::{Answer, Clock, Moment, Reply, Step, StoreErrorKind, Trouble};

use crate::link::{Again, Link, Waiting};
use crate::steps::{self, Meaning, Read};
use crate::wire::{self, Value};

/// How many replicas must have a grant, and how long they may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) within: Duration,
}

impl Replicas {
    /// Whether a step may grant or prolong something, or writes what has to stay.
    pub(crate) fn concern(step: &Step) -> bool {
        match step {
            Step::Acquire { .. } | Step::AcquireAll { .. } | Step::Renew { .. } => true,
            Step::Release { then, .. } => then.is_some(),
            Step::Record { deed, .. } => deed.token().is_some(),
            Step::GiveBack { .. }
            | Step::Evict { .. }
            | Step::Ask { .. }
            | Step::Inspect { .. }
            | Step::List { .. } => false,
        }
    }

    /// Writes the command. It holds up what comes behind it on the link: never for longer than the step has.
    pub(crate) fn write(self, out: &mut Vec<u8>, clock: &Clock, deadline: Option<Moment>) {
        let left = deadline.map_or(self.within, |deadline| deadline.since(clock.now()).min(self.within));
        let within = left.as_millis().max(1).to_string();
        wire::write(out, &[b"WAIT", self.count.to_string().as_bytes(), within.as_bytes()]);
    }

    /// What waits for the two replies: the script's, and that of WAIT behind it.
    pub(crate) fn waiting(self, step: Step, meaning: Meaning, reply: Reply, again: Again) -> (Waiting, Waiting) {
        let said = Arc::new(Mutex::new(None));
        let heard = said.clone();
        let first = Waiting::Then(Box::new(move |_, outcome| {
            *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        }));
        let second = Waiting::Then(Box::new(move |link, count| {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Both are gone with the link, or were never sent.
            let said = said.unwrap_or_else(|| count.clone().and(Err(lost())));
            self.judge(link, Waiting::Step { step, meaning, reply, again }, said, count);
        }));
        (first, second)
    }

    fn judge(self, link: &Arc<Link>, waiting: Waiting, said: Result<Value, Trouble>, count: Result<Value, Trouble>) {
        let Waiting::Step { step, meaning, reply, again } = waiting else { return };
        let confirmed = count.as_ref().ok().and_then(Value::number).unwrap_or(0);
        let name = step.name().map(|name| name.as_str().to_owned()).unwrap_or_default();
        let read = said.as_ref().ok().map(|value| steps::read(meaning, &name, value));
        let enough = count.is_ok() && confirmed >= i64::from(self.count);
        match read {
            Some(Read::Answer(
                Answer::Granted { .. }
                | Answer::AllGranted { .. }
                | Answer::Kept
                | Answer::KeptAndAsked(_)
                | Answer::Record(_)
                | Answer::Stored,
            )) if !enough => {
                reply.answer(Err(count.err().unwrap_or_else(|| self.too_few(confirmed))));
            }
            // Released it is; the claim that came along asks again, and is told then.
            Some(Read::Answer(Answer::Relayed { freed, then }))
                if !enough && matches!(*then, Answer::Granted { .. }) =>
            {
                let then = Box::new(Answer::Held { holder: None, last: None, ticket: None });
                reply.answer(Ok(Answer::Relayed { freed, then }));
            }
            _ => link.complete(Waiting::Step { step, meaning, reply, again }, said),
        }
    }

    /// Unknown by its kind: so the claim is released, which is the cure.
    fn too_few(self, confirmed: i64) -> Trouble {
        let Self { count, within } = self;
        let message = format!(
            "only {confirmed} of the {count} replicas that `replicas` asks for confirmed the write within {within:?}, so \
             it does not count; look at the replication, or ask for fewer"
        );
        Trouble::new(StoreErrorKind::Unreachable, message)
    }
}

fn lost() -> Trouble {
    Trouble::new(StoreErrorKind::Unreachable, "the link was lost before it answered")
}
