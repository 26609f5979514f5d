//! Claims that wait at the service: one open request each, whose answer is the grant.
//!
//! The engine asks for a place in line, hears that it has one, and asks again now and then; the service keeps the place
//! by itself. So only the first question is sent. When the grant comes, it is told as a hand-over that is dated by that
//! question if it is young enough, because the service cannot have granted before it; else the engine is told to ask
//! again, and the answer to that dates the grant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::store::{Answer, Claim, Clock, Event, FencingToken, Holder, Moment, Owner, Reply, Trouble};
use http::StatusCode;
use tokio::task::AbortHandle;

use crate::client::Client;
use crate::stream::{Events, Said};
use crate::wire::{Granted, Problem, Waiting};
use crate::{trouble, wire};

#[derive(Default)]
pub(crate) struct Lines {
    state: Mutex<HashMap<Owner, Line>>,
}

/// One claim.
struct Line {
    reply: Reply,
    place: Option<Place>,
}

/// Its request.
struct Place {
    /// Which stream this is: what an older one says does not count.
    number: u64,
    holder: Option<Holder>,
    ticket: Option<FencingToken>,
    granted: bool,
    reader: AbortHandle,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// What is known of a claim without asking.
pub(crate) enum Known {
    /// It is in line, as was told.
    Waits(Answer),
    /// It was granted: whoever asks now is told so by the service.
    Granted,
    /// Nothing.
    Nothing,
}

/// How a stream began.
pub(crate) enum Began {
    Granted(FencingToken),
    Waits(Waiting),
    Refused(StatusCode, Problem),
}

impl Lines {
    fn state(&self) -> MutexGuard<'_, HashMap<Owner, Line>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listen(&self, owner: Owner, reply: Reply) {
        self.state().insert(owner, Line { reply, place: None });
    }

    pub(crate) fn unlisten(&self, owner: &Owner) {
        self.state().remove(owner);
    }

    pub(crate) fn known(&self, owner: &Owner) -> Known {
        match self.state().get(owner).and_then(|line| line.place.as_ref()) {
            Some(place) if place.granted => Known::Granted,
            Some(place) => {
                let (holder, ticket) = (place.holder.clone(), place.ticket);
                Known::Waits(Answer::Held { holder, last: None, ticket })
            }
            None => Known::Nothing,
        }
    }

    /// The request is over: what it said does not count any more.
    pub(crate) fn forget(&self, owner: &Owner) {
        if let Some(line) = self.state().get_mut(owner) {
            line.place = None;
        }
    }

    /// Keeps reading a stream that says that the claim waits. Answers what the engine is told.
    pub(crate) fn keep(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        waiting: Waiting,
        events: Events,
        asked: (u32, Moment),
        from: (Arc<Client>, usize),
        clock: &Clock,
    ) -> Answer {
        // Nobody has to ask when the holder's time is over: the service does.
        let mut holder = waiting.holder.map(Holder::from);
        if let Some(holder) = &mut holder {
            holder.expires_in = None;
        }
        let ticket = waiting.ticket.as_deref().and_then(wire::token);
        let answer = Answer::Held { holder: holder.clone(), last: None, ticket };
        let mut state = self.state();
        // Nobody listens any more: its release is on its way, and closing the stream ends the wait.
        let Some(line) = state.get_mut(&claim.owner) else { return answer };
        let number = line.place.as_ref().map_or(1, |place| place.number + 1);
        let (lines, claim, clock) = (self.clone(), claim.clone(), clock.clone());
        let reader = tokio::spawn(async move {
            lines.read(&claim, number, events, asked, from, &clock).await;
        });
        line.place = Some(Place { number, holder, ticket, granted: false, reader: reader.abort_handle() });
        answer
    }

    async fn read(
        &self,
        claim: &Claim,
        number: u64,
        mut events: Events,
        (attempt, sent): (u32, Moment),
        (client, replica): (Arc<Client>, usize),
        clock: &Clock,
    ) {
        let said = events.next().await;
        let token = match said.as_ref().map(|said| said.kind.as_str()) {
            Some("granted") => said.as_ref().and_then(|said| granted(&said.data)),
            _ => None,
        };
        if said.is_none() || is_leaving(said.as_ref()) {
            client.leave(replica);
        }
        let mut state = self.state();
        let Some(line) = state.get_mut(&claim.owner) else { return };
        let Some(place) = line.place.as_mut().filter(|place| place.number == number) else { return };
        let reply = line.reply.clone();
        let lease = claim.place().map(|place| place.lease).unwrap_or_default();
        let event = match token {
            Some(token) => {
                place.granted = true;
                let is_young = clock.now().since(sent) < lease / 2;
                if is_young { Event::HandedOver { token, attempt } } else { Event::MayPay }
            }
            // The replica has gone, or the wait was as long as it allows: asking again goes on.
            None => {
                line.place = None;
                Event::MayPay
            }
        };
        drop(state);
        reply.push(event);
    }
}

fn is_leaving(said: Option<&Said>) -> bool {
    let problem = said.filter(|said| said.kind == "problem").and_then(|said| serde_json::from_str(&said.data).ok());
    problem.is_some_and(|problem: Problem| problem.code == "shutting_down")
}

fn granted(data: &str) -> Option<FencingToken> {
    serde_json::from_str::<Granted>(data).ok()?.token()
}

/// The first event of a stream.
pub(crate) fn began(said: &Said) -> Result<Began, Trouble> {
    let unreadable = || trouble::odd(format!("an event that cannot be read: {}", said.kind));
    match said.kind.as_str() {
        "granted" => granted(&said.data).map(Began::Granted).ok_or_else(unreadable),
        "waiting" => serde_json::from_str(&said.data).map(Began::Waits).map_err(|_| unreadable()),
        "problem" => {
            let problem: Problem = serde_json::from_str(&said.data).map_err(|_| unreadable())?;
            let status = if problem.code == "held" { StatusCode::LOCKED } else { StatusCode::SERVICE_UNAVAILABLE };
            Ok(Began::Refused(status, problem))
        }
        _ => Err(unreadable()),
    }
}
