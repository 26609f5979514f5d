//! Who listens in this process, and the letters by which processes tell each other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::store::table::Notice;
use fencepost_core::store::{Claim, Event, FencingToken, Owner, Reply, StoreErrorKind};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::database::Failure;

/// Looks on behalf of those who wait are at least and at most so far apart.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));
/// Between them, the pause is this part of the time that the newest of them has waited.
const LOOK_PART: u32 = 8;

/// What one process writes to another, where the database carries letters.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Letter {
    /// To ourselves, to see whether letters arrive; the number tells one such try from another.
    Hello(u64),
    /// To the listener with this number.
    Push(u64, Event),
}

impl Letter {
    /// Reads a letter; what is none of ours is nobody's business.
    fn parse(text: &str) -> Option<Self> {
        if let Some(number) = text.strip_prefix(HELLO) {
            return number.parse().ok().map(Self::Hello);
        }
        let mut words = text.split(' ');
        let (number, attempt, token) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        let event = match token {
            "-" => Event::MayPay,
            token => Event::HandedOver { token: token.parse().ok()?, attempt },
        };
        Some(Self::Push(number.parse().ok()?, event))
    }
}

/// How the text of [`Letter::Hello`] begins.
const HELLO: &str = "hello ";

/// The listeners of one store.
#[derive(Debug)]
pub struct Hub {
    channel: String,
    state: Mutex<State>,
    pub(crate) changed: Notify,
    came: Notify,
    heard: Notify,
    hears: AtomicBool,
    /// The number of the last letter to ourselves.
    hello: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    listeners: HashMap<Owner, Listener>,
    by_number: HashMap<u64, Owner>,
    numbers: u64,
}

#[derive(Debug)]
struct Listener {
    claim: Arc<Claim>,
    reply: Reply,
    number: u64,
    /// The last grant that was pushed, so that it is pushed once.
    told: Option<FencingToken>,
    since: Instant,
    /// When trying again may pay, because the holder's lease ends.
    due: Option<Instant>,
}

impl Hub {
    /// A hub whose channel nobody can guess.
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            let what = format!("the operating system gave no random bytes: {error}");
            Failure::new(StoreErrorKind::Unexpected, what, "check the system")
        })?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let channel = format!("fp_{digits}");
        Ok(Self {
            channel,
            state: Mutex::default(),
            changed: Notify::new(),
            came: Notify::new(),
            heard: Notify::new(),
            hears: AtomicBool::new(false),
            hello: AtomicU64::new(0),
        })
    }

    /// Where letters to this store go: letters, digits and an underscore.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Letters arrive: nobody has to look.
    pub fn hears(&self) -> bool {
        self.hears.load(Ordering::SeqCst)
    }

    /// Letters arrive from now on, or do not any more.
    pub fn set_hears(&self, hears: bool) {
        self.hears.store(hears, Ordering::SeqCst);
        self.changed.notify_one();
        self.heard.notify_one();
    }

    /// The text of a new letter to ourselves. Those before count no more: they prove nothing of the connection that is
    /// to be proved now.
    pub fn hello(&self) -> String {
        format!("{HELLO}{}", self.hello.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Something came over this channel. What was not said to this store is nobody's business here: behind a pooler a
    /// connection may hear what others listen to, and their listeners have the same numbers as ours.
    pub fn receive(&self, channel: &str, text: &str) {
        if channel != self.channel {
            return;
        }
        match Letter::parse(text) {
            Some(Letter::Hello(number)) if number == self.hello.load(Ordering::SeqCst) => self.set_hears(true),
            Some(Letter::Push(number, event)) => {
                let owner = self.state().by_number.get(&number).copied();
                owner.into_iter().for_each(|owner| self.push(&owner, event.clone()));
            }
            Some(Letter::Hello(_)) | None => {}
        }
    }

    /// Letters may have been missed: everybody asks.
    pub fn nudge_all(&self) {
        let owners: Vec<Owner> = self.state().listeners.keys().copied().collect();
        owners.iter().for_each(|owner| self.push(owner, Event::MayPay));
    }

    pub(crate) fn listen(&self, claim: &Arc<Claim>, reply: Reply) {
        let mut state = self.state();
        state.numbers += 1;
        let (number, since) = (state.numbers, Instant::now());
        let listener = Listener { claim: claim.clone(), reply, number, told: None, since, due: None };
        state.by_number.insert(number, claim.owner);
        state.listeners.insert(claim.owner, listener);
        drop(state);
        self.changed.notify_one();
        self.came.notify_one();
    }

    /// Waits until somebody listens.
    pub async fn wanted(&self) {
        while self.state().listeners.is_empty() {
            self.came.notified().await;
        }
    }

    /// Nobody listens.
    pub fn is_unwanted(&self) -> bool {
        self.state().listeners.is_empty()
    }

    /// Waits until letters arrive.
    pub async fn heard(&self) {
        while !self.hears() {
            self.heard.notified().await;
        }
    }

    pub(crate) fn unlisten(&self, owner: &Owner) {
        let mut state = self.state();
        let ended = state.listeners.remove(owner);
        if let Some(listener) = &ended {
            state.by_number.remove(&listener.number);
        }
        drop(state);
        // Outside the lock: its mailbox may be the last one that is dropped.
        drop(ended);
    }

    pub(crate) fn listens(&self, owner: &Owner) -> bool {
        self.state().listeners.contains_key(owner)
    }

    /// Where this owner's letters go.
    pub(crate) fn inbox(&self, owner: &Owner) -> Option<String> {
        self.state().listeners.get(owner).map(|listener| format!("{}.{}", self.channel, listener.number))
    }

    pub(crate) fn is_ours(&self, inbox: &str) -> bool {
        inbox.rsplit_once('.').is_some_and(|(channel, _)| channel == self.channel)
    }

    /// The letter to an inbox: its channel and text.
    pub(crate) fn letter(inbox: &str, attempt: u32, notice: Notice) -> Option<(String, String)> {
        let (channel, number) = inbox.rsplit_once('.')?;
        let text = match notice {
            Notice::HandedOver { token } => format!("{number} {attempt} {token}"),
            Notice::MayPay => format!("{number} {attempt} -"),
        };
        Some((channel.to_owned(), text))
    }

    /// Says something to a claim of this process, a grant only once.
    pub(crate) fn push(&self, owner: &Owner, event: Event) {
        let reply = {
            let mut state = self.state();
            let Some(listener) = state.listeners.get_mut(owner) else { return };
            if let Event::HandedOver { token, .. } = event
                && listener.told.replace(token) == Some(token)
            {
                return;
            }
            listener.due = None;
            listener.reply.clone()
        };
        reply.push(event);
    }

    /// Remembers when it may pay to ask again.
    pub(crate) fn set_due(&self, owner: &Owner, due: Instant) {
        if let Some(listener) = self.state().listeners.get_mut(owner) {
            listener.due = Some(due);
        }
        self.changed.notify_one();
    }

    /// The earliest of these moments.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.state().listeners.values().filter_map(|listener| listener.due).min()
    }

    /// Tells all whose moment has come.
    pub(crate) fn tell_due(&self, now: Instant) {
        let state = self.state();
        let due = state.listeners.iter().filter(|(_, listener)| listener.due.is_some_and(|due| due <= now));
        let due: Vec<Owner> = due.map(|(owner, _)| *owner).collect();
        drop(state);
        due.iter().for_each(|owner| self.push(owner, Event::MayPay));
    }

    /// How long to wait between looks; `None`: nobody waits, or letters arrive.
    pub(crate) fn look_pause(&self, now: Instant) -> Option<Duration> {
        if self.hears() {
            return None;
        }
        let waited = self.state().listeners.values().map(|listener| now.duration_since(listener.since)).min()?;
        Some((waited / LOOK_PART).clamp(LOOK_PAUSE.0, LOOK_PAUSE.1))
    }

    pub(crate) fn claims(&self) -> Vec<Arc<Claim>> {
        self.state().listeners.values().map(|listener| listener.claim.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use fencepost_core::store::{LockName, Mailbox, Mode, Place, Post, Turn};

    use super::*;

    /// Counts what it is told.
    struct Counter(AtomicUsize);

    impl Mailbox for Counter {
        fn post(self: Arc<Self>, _: Post) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A claim that listens.
    fn listening(hub: &Hub) -> (Arc<Claim>, Arc<Counter>) {
        let place = Place { ticket: None, lease: Duration::from_secs(3) };
        let claim = Arc::new(Claim {
            name: LockName::new("x").expect("valid"),
            owner: Owner::random().expect("random"),
            label: "".into(),
            mode: Mode::Exclusive,
            ttl: Duration::from_secs(30),
            turn: Turn::InLine(place),
            fenced: true,
            actor: None,
            delay: Duration::ZERO,
        });
        let counter = Arc::new(Counter(AtomicUsize::new(0)));
        hub.listen(&claim, Reply::new(counter.clone(), 0, 0));
        (claim, counter)
    }

    #[test]
    fn letters_are_read_as_they_were_written() {
        let token = FencingToken::from_number(77).expect("a token");
        let inbox = "fp_0123.9";
        let (channel, text) = Hub::letter(inbox, 3, Notice::HandedOver { token }).expect("an inbox");
        assert_eq!(channel, "fp_0123");
        assert_eq!(Letter::parse(&text), Some(Letter::Push(9, Event::HandedOver { token, attempt: 3 })));
        let (_, text) = Hub::letter(inbox, 3, Notice::MayPay).expect("an inbox");
        assert_eq!(Letter::parse(&text), Some(Letter::Push(9, Event::MayPay)));
        assert_eq!(Letter::parse(&Hub::new().expect("random").hello()), Some(Letter::Hello(1)));
    }

    #[test]
    fn what_was_said_to_others_or_before_is_not_heard() {
        let (ours, theirs) = (Hub::new().expect("random"), Hub::new().expect("random"));
        let (old, new) = (ours.hello(), ours.hello());
        ours.receive(theirs.channel(), &new);
        ours.receive(ours.channel(), &old);
        assert!(!ours.hears());
        ours.receive(ours.channel(), &new);
        assert!(ours.hears());
    }

    #[test]
    fn a_grant_that_was_said_to_another_store_is_no_grant_of_ours() {
        let hubs = [Hub::new().expect("random"), Hub::new().expect("random")];
        let (claims, mailboxes): (Vec<_>, Vec<_>) = hubs.iter().map(listening).unzip();
        let token = FencingToken::from_number(77).expect("a token");
        let inbox = hubs[1].inbox(&claims[1].owner).expect("it listens");
        let (channel, text) = Hub::letter(&inbox, 1, Notice::HandedOver { token }).expect("an inbox");
        // A pooler brings it to both; the listeners of both have the same number.
        hubs.iter().for_each(|hub| hub.receive(&channel, &text));
        let heard: Vec<usize> = mailboxes.iter().map(|mailbox| mailbox.0.load(Ordering::SeqCst)).collect();
        assert_eq!(heard, [0, 1]);
    }

    #[test]
    fn what_is_no_letter_is_nothing() {
        for text in ["", "hello", "hello x", "9", "9 3", "9 3 0", "9 3 x", "x 3 -", "9 -1 7", "drop table"] {
            assert_eq!(Letter::parse(text), None, "{text:?}");
        }
    }
}
