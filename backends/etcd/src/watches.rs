//! One stream of watches, open while somebody waits: each waiter has the one key that keeps it out on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::store::{Claim, LockName, Owner};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::client::Client;
use crate::proto::{WatchAsk, WatchCancel, WatchCreate, WatchRequest, WatchResponse};

/// The pauses before a stream is opened again grow from the first to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Who shall look again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
}

enum Wish {
    Watch { call: Call, key: Vec<u8>, seen: i64 },
    Forget(Owner),
}

/// What waiters say to the stream.
pub(crate) struct Watches {
    wishes: UnboundedSender<Wish>,
}

impl Watches {
    /// And the end that [`run`] hears them at.
    pub(crate) fn new() -> (Self, Ear) {
        let (wishes, heard) = unbounded_channel();
        (Self { wishes }, Ear(heard))
    }

    /// Tells this claim when the key changes after this revision. It has one key at a time.
    pub(crate) fn watch(&self, claim: &Claim, key: Vec<u8>, seen: i64) {
        let call = Call { name: claim.name.clone(), owner: claim.owner };
        let _ = self.wishes.send(Wish::Watch { call, key, seen });
    }

    /// It does not wait any more.
    pub(crate) fn forget(&self, owner: &Owner) {
        let _ = self.wishes.send(Wish::Forget(*owner));
    }
}

pub(crate) struct Ear(UnboundedReceiver<Wish>);

struct Watch {
    call: Call,
    key: Vec<u8>,
    /// What was looked at before the watch began: if more has happened since, it has to look again.
    seen: i64,
}

/// Who watches what. Numbers are never used twice.
#[derive(Default)]
struct Board {
    watches: HashMap<i64, Watch>,
    by_owner: HashMap<Owner, i64>,
    numbers: i64,
}

impl Board {
    /// Answers the number, and the one that it takes the place of; `None` if it watches that key already.
    fn add(&mut self, watch: Watch) -> Option<(i64, Option<i64>)> {
        let old = self.by_owner.get(&watch.call.owner).copied();
        if let Some(same) = old.and_then(|old| self.watches.get_mut(&old)).filter(|old| old.key == watch.key) {
            same.seen = same.seen.max(watch.seen);
            return None;
        }
        self.numbers += 1;
        if let Some(old) = old {
            self.watches.remove(&old);
        }
        self.by_owner.insert(watch.call.owner, self.numbers);
        self.watches.insert(self.numbers, watch);
        Some((self.numbers, old))
    }

    fn remove(&mut self, number: i64) -> Option<Call> {
        let watch = self.watches.remove(&number)?;
        self.by_owner.remove(&watch.call.owner);
        Some(watch.call)
    }
}

/// Keeps the stream open for as long as somebody waits, at whichever member answers.
pub(crate) async fn run(client: Arc<Client>, ear: Ear, call: impl Fn(Call)) {
    let Ear(mut wishes) = ear;
    let (mut board, mut pause) = (Board::default(), PAUSE.0);
    loop {
        while board.watches.is_empty() {
            let Some(wish) = wishes.recv().await else { return };
            obey(&mut board, wish, None);
        }
        let mut turns = client.turns();
        turns.mark_unchanged();
        let (requests, outgoing) = unbounded_channel();
        for (number, watch) in &board.watches {
            let _ = requests.send(create(*number, &watch.key));
        }
        let opened = client.watch(UnboundedReceiverStream::new(outgoing)).await;
        let Ok(mut answers) = opened else {
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
            continue;
        };
        loop {
            tokio::select! {
                wish = wishes.recv() => match wish {
                    Some(wish) => obey(&mut board, wish, Some(&requests)),
                    None => return,
                },
                // Others found that this member does not answer.
                changed = turns.changed() => {
                    if changed.is_err() { return }
                    break;
                }
                answer = answers.message() => match answer {
                    // Refused: our ticket is forgotten or over. A stream keeps the one it was opened with.
                    Ok(Some(answer)) if answer.created && answer.canceled => {
                        if let Some(watch) = board.watches.get(&answer.watch_id) {
                            call(watch.call.clone());
                        }
                        client.introduce_anew().await;
                        sleep(pause).await;
                        pause = (pause * 2).min(PAUSE.1);
                        break;
                    }
                    Ok(Some(answer)) => {
                        pause = PAUSE.0;
                        if let Some(woken) = hear(&mut board, &answer) {
                            call(woken);
                        }
                    }
                    Ok(None) | Err(_) => {
                        sleep(pause).await;
                        pause = (pause * 2).min(PAUSE.1);
                        break;
                    }
                },
            }
        }
    }
}

fn obey(board: &mut Board, wish: Wish, requests: Option<&UnboundedSender<WatchRequest>>) {
    let send = |request| requests.map(|requests| requests.send(request));
    match wish {
        Wish::Watch { call, key, seen } => {
            let create = |number| create(number, &key);
            let Some((number, old)) = board.add(Watch { call, key: key.clone(), seen }) else { return };
            if let Some(old) = old {
                send(cancel(old));
            }
            send(create(number));
        }
        Wish::Forget(owner) => {
            let number = board.by_owner.get(&owner).copied();
            if let Some(number) = number.filter(|number| board.remove(*number).is_some()) {
                send(cancel(number));
            }
        }
    }
}

/// Who has to look again after this. The watch stays, until that look finds another key in the way, or none.
fn hear(board: &mut Board, answer: &WatchResponse) -> Option<Call> {
    if answer.canceled {
        fencepost_core::notice!(DEBUG, reason = answer.cancel_reason, "a watch ended");
        return board.remove(answer.watch_id);
    }
    let watch = board.watches.get(&answer.watch_id)?;
    let now = answer.header.as_ref().map_or(0, |header| header.revision);
    // It begins with what happens from now on: one that begins in the past is served by etcd ten times a second only.
    let missed = answer.created && now > watch.seen;
    (missed || !answer.events.is_empty()).then(|| watch.call.clone())
}

fn create(watch_id: i64, key: &[u8]) -> WatchRequest {
    WatchRequest { ask: Some(WatchAsk::Create(WatchCreate { key: key.to_vec(), watch_id })) }
}

fn cancel(watch_id: i64) -> WatchRequest {
    WatchRequest { ask: Some(WatchAsk::Cancel(WatchCancel { watch_id })) }
}
