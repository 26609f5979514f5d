//! Why a wait goes on: said after a second, and again whenever the cause changes.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fencepost::StoreError;

use crate::child::Message;
use crate::output::Output;

/// A cause that passes sooner is not worth a line; nor is there more than one line in this span.
const PAUSE: Duration = Duration::from_secs(1);

/// What the store's trouble is while a session waits for it.
#[derive(Debug)]
pub(crate) struct Causes {
    name: String,
    output: Output,
    next: Instant,
    said: Option<Box<StoreError>>,
    unsaid: Option<Box<StoreError>>,
}

impl Causes {
    pub(crate) fn new(name: &str, output: Output) -> Self {
        Self { name: name.to_owned(), output, next: Instant::now() + PAUSE, said: None, unsaid: None }
    }

    /// The next message that is not about a cause. The session itself keeps a sender, so there always may be one.
    pub(crate) fn next_message(&mut self, inbox: &Receiver<Message>) -> Message {
        loop {
            let message = match self.unsaid {
                Some(_) => inbox.recv_timeout(self.next.saturating_duration_since(Instant::now())),
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::WaitingForStore(error)) => self.unsaid = Some(error),
                Ok(message) => {
                    // The store decides again: an old cause is not said any more, and the same one is new if it comes back.
                    if matches!(message, Message::Connected(_) | Message::Waiting | Message::Acquired(_)) {
                        (self.said, self.unsaid) = (None, None);
                    }
                    return message;
                }
                Err(RecvTimeoutError::Timeout) => self.say(),
                Err(RecvTimeoutError::Disconnected) => unreachable!("BUG: this session keeps a sender"),
            }
        }
    }

    fn say(&mut self) {
        let Some(error) = self.unsaid.take() else { return };
        // Several claims of one session may name the same cause.
        if self.said.as_ref().is_none_or(|said| !said.has_cause_of(&error) || said.message != error.message) {
            self.output.note(&format!("{}: waiting for the store: {error}", self.name));
        }
        self.said = Some(error);
        self.next = Instant::now() + PAUSE;
    }
}
