//! Fencepost, with and without a fencing token, and listened to.

use std::time::Duration;

use fencepost::{Blocking, Event, EventKind, Feed, Lock, Locks, connect};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Contender, Kind, TTL, runtime};
use crate::Outcome;
use crate::contest::{Held, Task, all_turns, perform};
use crate::nodes::url_of;

pub(crate) const OURS: Kind = Kind { name: "ours", fenced: true, sets: false, program: None, run };
/// With the time that an answer has unless the user says otherwise.
pub(crate) const OURS_BY_DEFAULT: Kind =
    Kind { name: "ours by default", fenced: true, sets: false, program: None, run: run_by_default };
pub(crate) const PLAIN: Kind =
    Kind { name: "ours without a token", fenced: false, sets: true, program: None, run: run_plain };

/// It tells the ticket of every turn, from the events; that costs a little, so nothing else is measured with it.
pub(crate) const HEARD: Kind =
    Kind { name: "ours, listened to", fenced: true, sets: false, program: None, run: run_heard };

/// Events come a moment after the turns.
const EVENTS_WITHIN: Duration = Duration::from_secs(5);

fn locks(task: &Task) -> Outcome<Locks> {
    // Far beyond what a crowded machine needs: what is measured is speed, not patience.
    Ok(connect(url_of(task.addresses)).ttl(TTL).answer_within(Duration::from_secs(5)).block()?)
}

fn run(task: &Task) -> Outcome<()> {
    run_with(task, locks(task)?)
}

fn run_by_default(task: &Task) -> Outcome<()> {
    run_with(task, connect(url_of(task.addresses)).ttl(TTL).block()?)
}

fn run_with(task: &Task, locks: Locks) -> Outcome<()> {
    let runtime = runtime()?;
    let enter = async |name: String| Ok(Ours(locks.lock(name).wait_forever()));
    perform(task, |task| runtime.block_on(all_turns(task, enter)))
}

struct Ours(Lock);

impl Contender for Ours {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send) -> Outcome<(Held, u64)> {
        let guard = self.0.acquire().await?;
        let (held, token) = (hold.await, guard.token());
        guard.release().await?;
        Ok((held, token.as_u64()))
    }
}

fn run_heard(task: &Task) -> Outcome<()> {
    let (runtime, locks) = (runtime()?, locks(task)?);
    let (tell, mut told) = unbounded_channel();
    runtime.spawn(listen(locks.events(), tell));
    let enter = async |name: String| Ok(Ours(locks.lock(name).wait_forever()));
    perform(task, |task| {
        runtime.block_on(async {
            let mut lines = all_turns(task, enter).await?;
            let turns = lines.iter().filter(|line| !line.starts_with("stuck")).count();
            let tickets = tokio::time::timeout(EVENTS_WITHIN, tickets(&mut told, turns));
            lines.extend(tickets.await.map_err(|_| "some turns were not among the events")??);
            Ok(lines)
        })
    })
}

/// Token and ticket of every turn; the events of a turn that was abandoned are left over.
async fn listen(mut events: Feed<Event>, tell: UnboundedSender<Outcome<(u64, Option<u64>)>>) {
    while let Some(event) = events.next().await {
        let turn = match event.map(|event| event.kind) {
            Ok(EventKind::Acquired { token, ticket, .. }) => Ok((token.as_u64(), ticket.map(|ticket| ticket.as_u64()))),
            Ok(EventKind::Missed { events, .. }) => Err(format!("{events} events were missed").into()),
            Ok(_) => continue,
            Err(error) => Err(error.into()),
        };
        if tell.send(turn).is_err() {
            return;
        }
    }
}

async fn tickets(told: &mut UnboundedReceiver<Outcome<(u64, Option<u64>)>>, turns: usize) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    for _ in 0..turns {
        let (token, ticket) = told.recv().await.ok_or("the events have ended")??;
        lines.extend(ticket.map(|ticket| format!("ticket {token} {ticket}")));
    }
    Ok(lines)
}

fn run_plain(task: &Task) -> Outcome<()> {
    let (runtime, locks) = (runtime()?, locks(task)?);
    let enter = async |name: String| Ok(Plain(locks.lock(name).unfenced().wait_forever()));
    perform(task, |task| runtime.block_on(all_turns(task, enter)))
}

struct Plain(Lock<()>);

impl Contender for Plain {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send) -> Outcome<(Held, u64)> {
        let guard = self.0.acquire().await?;
        let held = hold.await;
        guard.release().await?;
        Ok((held, 0))
    }
}
