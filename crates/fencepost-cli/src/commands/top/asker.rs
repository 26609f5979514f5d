//! Whoever asks the store, so that nobody else waits for it: one question about locks at a time, and one to the nodes.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use fencepost::{Blocking, Holder, LockState, Locks, NodeVote, StoreError};

use super::super::release::report;
use super::book::Picture;
use super::model::{Act, Deed, Options};
use crate::failure::Failure;

/// After a listing that took long the store has peace for so many times as long.
const PEACE: u32 = 4;
/// Nodes are asked no more often.
const NODES_DELAY_MIN: Duration = Duration::from_secs(1);
/// How many locks come with one answer of the store: between two answers others have their turn.
const PAGE: usize = 500;
/// What the logs of a service say of a forced release.
const REASON: &str = "fencepost top";

/// What the screen wants to know or to have done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Question {
    /// Everything, now.
    Refresh,
    /// Everything, that often.
    Delay(Duration),
    /// Nothing, or everything again.
    Pause(bool),
    /// This lock, as often as all others and before them.
    Watch(Option<String>),
    Deadlocks,
    Do(Deed),
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Told {
    /// A question about locks is under way, and all before it are answered.
    Asking,
    Picture(Picture),
    State(LockState, Instant),
    /// The store did not answer, or it refused.
    Failed {
        why: String,
        is_away: bool,
    },
    Nodes(Vec<NodeVote>),
    Circles(Result<Vec<Vec<LockState>>, String>),
    /// Something was done to a lock, or was not.
    Done(String),
}

/// The two who ask. They end when this is dropped and their last question is answered.
#[derive(Debug)]
pub(super) struct Askers {
    locks: Sender<Question>,
    nodes: Sender<Question>,
}

impl Askers {
    /// Starts both; `tell` answers whether anybody still listens.
    pub(super) fn start(
        locks: &Locks,
        options: &Options,
        tell: impl Fn(Told) -> bool + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let ((to_locks, about_locks), (to_nodes, about_nodes)) = (channel(), channel());
        let delay = options.delay;
        let (prefix, limit, watched) = (options.prefix.clone(), options.limit, None);
        let rhythm = Rhythm::new(delay, PEACE);
        let mut reader = Reader { locks: locks.clone(), prefix, limit, watched, rhythm, tell: tell.clone() };
        let read = move || {
            while let Some(turn) = reader.rhythm.turn(&about_locks) {
                let goes_on = match turn {
                    Turn::Due => reader.read(&about_locks),
                    Turn::Question(question) => reader.answer(question),
                };
                if !goes_on {
                    return;
                }
            }
        };
        let locks = locks.clone();
        let probe = move || {
            // One that hangs is given up after seconds; the others shall not be asked less often for that.
            let mut rhythm = Rhythm::new(delay.max(NODES_DELAY_MIN), 0);
            while let Some(turn) = rhythm.turn(&about_nodes) {
                match turn {
                    Turn::Due => {
                        let began = Instant::now();
                        if !tell(Told::Nodes(locks.nodes().block())) {
                            return;
                        }
                        rhythm.rest(began, true);
                    }
                    Turn::Question(Question::Delay(delay)) => {
                        rhythm.hear(&Question::Delay(delay.max(NODES_DELAY_MIN)));
                    }
                    Turn::Question(question) => rhythm.hear(&question),
                }
            }
        };
        std::thread::Builder::new().name("top: locks".into()).spawn(read)?;
        std::thread::Builder::new().name("top: nodes".into()).spawn(probe)?;
        Ok(Self { locks: to_locks, nodes: to_nodes })
    }

    /// The answer is told.
    pub(super) fn ask(&self, question: Question) -> Result<(), Failure> {
        let is_gone = |_| Failure::ours("cannot ask the store", "the thread that does is gone");
        if matches!(question, Question::Refresh | Question::Delay(_) | Question::Pause(_)) {
            self.nodes.send(question.clone()).map_err(is_gone)?;
        }
        self.locks.send(question).map_err(is_gone)
    }
}

/// When to ask next.
struct Rhythm {
    delay: Duration,
    /// After an answer the store has peace for so many times as long as it took.
    peace: u32,
    is_paused: bool,
    due: Instant,
}

enum Turn {
    Due,
    Question(Question),
}

impl Rhythm {
    fn new(delay: Duration, peace: u32) -> Self {
        Self { delay, peace, is_paused: false, due: Instant::now() }
    }

    /// Waits for what comes first; `None`: nobody asks any more.
    fn turn(&mut self, questions: &Receiver<Question>) -> Option<Turn> {
        let asked = match self.is_paused {
            true => questions.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => questions.recv_timeout(self.due.saturating_duration_since(Instant::now())),
        };
        match asked {
            Ok(question) => Some(Turn::Question(question)),
            Err(RecvTimeoutError::Timeout) => Some(Turn::Due),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// What a question means for the next turn.
    fn hear(&mut self, question: &Question) {
        let now = Instant::now();
        match question {
            Question::Refresh => self.due = now,
            Question::Delay(delay) => {
                self.delay = *delay;
                self.due = self.due.min(now + self.delay);
            }
            Question::Pause(is_paused) => (self.is_paused, self.due) = (*is_paused, now),
            _ => {}
        }
    }

    /// It was asked. One that did not answer did not have to work for it either.
    fn rest(&mut self, began: Instant, has_answered: bool) {
        let now = Instant::now();
        let peace = if has_answered { self.peace * now.saturating_duration_since(began) } else { Duration::ZERO };
        self.due = (began + self.delay).max(now + peace);
    }
}

/// Whoever asks about locks.
struct Reader<T> {
    locks: Locks,
    prefix: String,
    limit: usize,
    watched: Option<String>,
    rhythm: Rhythm,
    tell: T,
}

impl<T: Fn(Told) -> bool> Reader<T> {
    /// Reads everything. Answers whether anybody still listens.
    fn read(&mut self, questions: &Receiver<Question>) -> bool {
        let began = Instant::now();
        if !(self.tell)(Told::Asking) {
            return false;
        }
        let (told, has_answered) = match self.picture(began, questions) {
            Ok(picture) => (Told::Picture(picture), true),
            Err(error) => (Told::Failed { is_away: error.is_retryable(), why: error.to_string() }, false),
        };
        self.rhythm.rest(began, has_answered);
        (self.tell)(told)
    }

    fn picture(&mut self, asked_at: Instant, questions: &Receiver<Question>) -> Result<Picture, StoreError> {
        self.look_at_watched()?;
        let (locks, prefix) = (self.locks.clone(), self.prefix.clone());
        let (states, is_cut) = listing(&locks, &prefix, self.limit, |read| {
            // Of many locks somebody who presses a key does not wait for all.
            if read.is_multiple_of(PAGE) {
                (self.tell)(Told::Asking);
                for question in questions.try_iter() {
                    self.answer(question);
                }
            }
        })?;
        Ok(Picture { states, is_cut, asked_at, read_at: Instant::now() })
    }

    fn look_at_watched(&self) -> Result<(), StoreError> {
        if let Some(name) = &self.watched {
            (self.tell)(Told::State(self.locks.inspect(name).block()?, Instant::now()));
        }
        Ok(())
    }

    /// Answers whether anybody still listens.
    fn answer(&mut self, question: Question) -> bool {
        self.rhythm.hear(&question);
        let told = match question {
            Question::Refresh | Question::Delay(_) | Question::Pause(_) => return true,
            Question::Watch(name) => {
                self.watched = name;
                // Of one that fails, the next reading tells.
                let _ = self.look_at_watched();
                return true;
            }
            Question::Deadlocks => Told::Circles(self.locks.deadlocks().block().map_err(|error| error.to_string())),
            Question::Do(deed) => {
                self.rhythm.hear(&Question::Refresh);
                Told::Done(self.act(&deed).unwrap_or_else(|error| error.to_string()))
            }
        };
        (self.tell)(told)
    }

    /// Answers in words what was done.
    fn act(&self, deed: &Deed) -> Result<String, StoreError> {
        let name = &deed.name;
        // Between the question and the answer of somebody who reads it first, the lock may have changed hands.
        let now = self.locks.inspect(name).block()?.holders.into_iter().next();
        match now {
            Some(now) if who(&now) != who(&deed.holder) => {
                return Ok(format!("{name} is held by {now} now; nothing was done"));
            }
            None => return Ok(format!("{name} was free")),
            Some(_) => {}
        }
        let (done, holder, unreached) = match deed.act {
            Act::ForceRelease => {
                let forced = self.locks.force_release(name, REASON).block()?;
                ("is released", forced.holder, forced.unreached)
            }
            Act::AskToYield => ("was asked for", self.locks.ask_to_yield(name, "").block()?, Vec::new()),
        };
        Ok(report(name, holder.as_ref(), done, &unreached))
    }
}

/// At most so many locks, and whether there are more; how many were read is told meanwhile.
pub(super) fn listing(
    locks: &Locks,
    prefix: &str,
    limit: usize,
    mut read: impl FnMut(usize),
) -> Result<(Vec<LockState>, bool), StoreError> {
    let (mut feed, mut states) = (locks.list(prefix), Vec::new());
    while let Some(state) = feed.next().block() {
        let state = state?;
        if states.len() == limit {
            return Ok((states, true));
        }
        states.push(state);
        read(states.len());
    }
    Ok((states, false))
}

fn who(holder: &Holder) -> (&str, Option<fencepost::FencingToken>) {
    (&holder.label, holder.token)
}
