//! The channels of locks that somebody waits for, in the layout where releases are published there.
//!
//! A channel is subscribed to when a waiting claim was refused, and whoever waits asks again once that is confirmed: a
//! release in between was heard by nobody. It is left a while after the last one has stopped listening, because a lock
//! that was waited for once is so again. All of this is done on the driver's thread, so what is sent is in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::notice;
use fencepost_core::store::{Answer, Claim, Moment, Step, Trouble};

use crate::link::{Link, Waiting};
use crate::wire::{self, Value};

/// A channel is kept for so long after the last one listened to it.
const LINGER: Duration = Duration::from_secs(5);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a link is subscribed to, or about to be.
#[derive(Default)]
pub(crate) struct Channels {
    /// Since when nobody was seen to listen.
    quiet_since: HashMap<String, Option<Moment>>,
    look_at: Option<Moment>,
}

/// A word that was sent about a channel.
pub(crate) struct Subscription {
    channel: String,
    begins: bool,
}

impl Link {
    /// A claim that waits was refused: from here on it is told when to ask again.
    pub(crate) fn listen_to_refusal(self: &Arc<Self>, step: &Step, answer: &Answer) {
        let refused = match (step, answer) {
            (Step::Acquire { claim, .. }, Answer::Held { .. }) => claim,
            (Step::Release { then: Some(then), .. }, Answer::Relayed { then: answer, .. })
                if matches!(**answer, Answer::Held { .. }) =>
            {
                &then.claim
            }
            _ => return,
        };
        let waits = |claim: &&Arc<Claim>| claim.place().is_some();
        let Some(channel) = Some(refused).filter(waits).and_then(|claim| self.keys.channel_of(claim)) else { return };
        let is_new = match &mut self.state().up {
            Some(up) if !up.channels.quiet_since.contains_key(&channel) => {
                up.channels.quiet_since.insert(channel.clone(), None);
                true
            }
            _ => false,
        };
        if is_new {
            self.say(&channel, true);
        }
    }

    /// Leaves the channels that nobody has listened to for a while.
    pub(crate) fn leave_quiet_channels(self: &Arc<Self>, now: Moment) {
        let mut left = Vec::new();
        if let Some(up) = &mut self.state().up
            && up.channels.look_at.is_none_or(|at| at <= now)
        {
            up.channels.look_at = Some(now.plus(LOOK_EVERY));
            up.channels.quiet_since.retain(|channel, quiet| {
                let since = if self.listeners.hear(channel) { None } else { Some(quiet.unwrap_or(now)) };
                *quiet = since;
                let stays = since.is_none_or(|since| now.since(since) < LINGER);
                if !stays {
                    left.push(channel.clone());
                }
                stays
            });
        }
        left.iter().for_each(|channel| self.say(channel, false));
    }

    /// Subscribes to a channel, or ends that. Since Redis 7 a cluster has two of each name: one that all nodes hear, and
    /// one of the shard; Redisson's default is the second.
    fn say(self: &Arc<Self>, channel: &str, begins: bool) {
        let waiting = || Waiting::Subscription(Subscription { channel: channel.to_owned(), begins });
        let shards = self.state().up.as_ref().is_some_and(|up| up.dialect.has_shards());
        let (all, shard) = if begins { ("SUBSCRIBE", "SSUBSCRIBE") } else { ("UNSUBSCRIBE", "SUNSUBSCRIBE") };
        self.send([Some(waiting()), shards.then(waiting)], |_, out| {
            wire::write(out, &[all.as_bytes(), channel.as_bytes()]);
            if shards {
                wire::write(out, &[shard.as_bytes(), channel.as_bytes()]);
            }
        });
    }

    /// Who waits for this push as their reply.
    pub(crate) fn confirmed(self: &Arc<Self>, parts: &[Value]) -> Option<Waiting> {
        let [kind, channel, ..] = parts else { return None };
        let (kind, channel) = (kind.text()?, channel.text()?);
        if !kind.ends_with("subscribe") {
            return None;
        }
        let mut state = self.state();
        let up = state.up.as_mut()?;
        match up.waiting.front() {
            Some(Waiting::Subscription(subscription)) if subscription.channel == channel => {
                up.answered(self.clock.now(), &self.pace)
            }
            // The slot has moved, and with it its shard's channels: whoever waits goes there, too.
            _ => {
                drop(state);
                self.leave(&channel);
                self.listeners.tell_channel(&channel);
                None
            }
        }
    }

    /// A subscription is there, or is not to be.
    pub(crate) fn subscribed(self: &Arc<Self>, subscription: &Subscription, outcome: &Result<Value, Trouble>) {
        let Subscription { channel, begins } = subscription;
        match outcome {
            Ok(Value::Error(why)) if *begins => {
                notice!(
                    WARN,
                    node = self.label,
                    channel = channel,
                    why = why,
                    "no messages about releases arrive from there: waiters look once a second"
                );
                // What is not allowed will not be a second later; what was sent to the wrong node will.
                if !why.starts_with("NOPERM") {
                    self.leave(channel);
                }
            }
            Ok(_) if *begins => self.listeners.tell_channel(channel),
            Ok(_) => {}
            // It was not sent, or its link is gone.
            Err(_) => {
                self.forget(channel);
            }
        }
    }

    /// Ends what may be there of a subscription. The next refusal subscribes anew.
    fn leave(self: &Arc<Self>, channel: &str) {
        if self.forget(channel) {
            self.say(channel, false);
        }
    }

    fn forget(&self, channel: &str) -> bool {
        self.state().up.as_mut().is_some_and(|up| up.channels.quiet_since.remove(channel).is_some())
    }
}
