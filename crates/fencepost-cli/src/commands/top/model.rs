//! What is on the screen, and what keys make of it. Pure: time comes with every call, and what is to be done goes out.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use fencepost::LockState;

use super::asker::{Question, Told};
use super::book::Book;
use super::health::Health;
use super::keys::Key;
use super::order::{Column, Show, Sort, arranged, matches};
use super::text::{harmless, pause};
use super::widest::Widest;

/// The delays that + and - go through.
const DELAYS_MS: [u64; 10] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000];
/// How long a word of ours stays, if no key is pressed.
const NOTE_STAYS: Duration = Duration::from_secs(10);
/// Somebody who has waited for so long for an answer is told.
const SLOW: Duration = Duration::from_secs(2);
/// The longest text of a search.
const LETTERS_MAX: usize = 100;

/// What fills the screen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Page {
    Locks,
    /// One lock.
    Lock(String),
    Nodes,
    Deadlocks,
    Help,
}

/// What stands before it and gets the keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Prompt {
    Search(String),
    Filter(String),
    /// The place in the list of columns.
    Sort(usize),
    Confirm(Deed),
}

/// What is done to a holder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Deed {
    pub(super) act: Act,
    pub(super) name: String,
    /// Who was shown when it was decided.
    pub(super) holder: fencepost::Holder,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    ForceRelease,
    AskToYield,
}

/// What is to be done outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    Quit,
    Suspend,
    Repaint,
    Ask(Question),
}

/// What an operator chose on the command line.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Without a password.
    pub(super) store: String,
    pub(super) prefix: String,
    pub(super) delay: Duration,
    pub(super) limit: usize,
    pub(super) read_only: bool,
    /// Free locks are shown, too, from the beginning.
    pub(super) all: bool,
}

/// Why nothing is known of the store now.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) since: Instant,
    /// It may come back by itself.
    pub(super) is_away: bool,
    pub(super) why: String,
}

/// What a search for deadlocks brought.
#[derive(Debug)]
pub(super) enum Circles {
    Asking,
    Found { circles: Vec<Vec<LockState>>, at: Instant },
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) options: Options,
    pub(super) book: Book,
    pub(super) health: Health,
    pub(super) trouble: Option<Trouble>,
    /// Since when a question about locks is not answered.
    asked_at: Option<Instant>,
    pub(super) circles: Circles,
    pub(super) page: Page,
    pub(super) prompt: Option<Prompt>,
    pub(super) sort: Sort,
    pub(super) show: Show,
    pub(super) filter: String,
    /// Since when the screen stands still.
    pub(super) paused_at: Option<Instant>,
    note: Option<(String, Instant)>,
    /// Columns and rows of the terminal.
    pub(super) size: (usize, usize),
    /// How many rows of locks there is room for.
    room: usize,
    /// Of the locks that are shown, their places in the book.
    pub(super) order: Vec<usize>,
    /// How much room they want.
    pub(super) widest: Widest,
    /// The lock under the bar, by name: it is the one that is meant, wherever it moves to.
    cursor: Option<String>,
    /// Its row.
    pub(super) at: usize,
    /// The first row in sight.
    pub(super) first: usize,
    /// How far a page of text is scrolled.
    pub(super) scroll: usize,
}

impl Model {
    pub(super) fn new(options: Options, size: (usize, usize)) -> Self {
        Self {
            show: if options.all { Show::All } else { Show::InUse },
            options,
            book: Book::default(),
            health: Health::default(),
            trouble: None,
            asked_at: None,
            circles: Circles::Asking,
            page: Page::Locks,
            prompt: None,
            sort: Sort::by(Column::Line),
            filter: String::new(),
            paused_at: None,
            note: None,
            size,
            room: 1,
            order: Vec::new(),
            widest: Widest::default(),
            cursor: None,
            at: 0,
            first: 0,
            scroll: 0,
        }
    }

    /// The moment that the screen shows.
    pub(super) fn now(&self, now: Instant) -> Instant {
        self.paused_at.unwrap_or(now)
    }

    /// What there is to say now, unless it is old.
    pub(super) fn note(&self, now: Instant) -> Option<&str> {
        let is_fresh = |at: &Instant| now.saturating_duration_since(*at) < NOTE_STAYS;
        self.note.as_ref().filter(|(_, at)| is_fresh(at)).map(|(text, _)| text.as_str())
    }

    fn say(&mut self, text: impl Into<String>, now: Instant) {
        self.note = Some((text.into(), now));
    }

    /// Since when no answer came, if that is long.
    pub(super) fn silent_since(&self, now: Instant) -> Option<Instant> {
        self.asked_at.filter(|asked_at| now.saturating_duration_since(*asked_at) >= SLOW)
    }

    /// The store said something.
    pub(super) fn hear(&mut self, told: Told, now: Instant) {
        match told {
            Told::Asking => self.asked_at = Some(now),
            Told::Picture(picture) => {
                (self.asked_at, self.trouble) = (None, None);
                if self.paused_at.is_none() {
                    self.book.take(picture);
                    self.arrange(now);
                }
            }
            Told::State(state, at) => {
                if self.paused_at.is_none() {
                    self.book.look(state, at);
                }
            }
            Told::Failed { why, is_away } => {
                self.asked_at = None;
                let since = self.trouble.as_ref().map_or(now, |trouble| trouble.since);
                self.trouble = Some(Trouble { since, is_away, why: harmless(&why).into_owned() });
            }
            Told::Nodes(votes) => {
                if self.paused_at.is_none() {
                    self.health.take(votes.into_iter().map(|node| (node.node, node.latency, node.vote)), now);
                }
            }
            Told::Circles(Ok(circles)) => self.circles = Circles::Found { circles, at: now },
            Told::Circles(Err(why)) => self.circles = Circles::Failed(harmless(&why).into_owned()),
            Told::Done(words) => self.say(harmless(&words).into_owned(), now),
        }
    }

    /// The terminal has another size.
    pub(super) fn resize(&mut self, size: (usize, usize)) {
        self.size = size;
        self.keep_in_sight();
    }

    /// There is room for so many rows, and a page of text goes on for so many below the screen.
    pub(super) fn fit(&mut self, room: usize, scroll_max: usize) {
        (self.room, self.scroll) = (room.max(1), self.scroll.min(scroll_max));
        self.keep_in_sight();
    }

    /// Puts the rows in order; the cursor stays on its lock, or where it was.
    pub(super) fn arrange(&mut self, now: Instant) {
        let now = self.now(now);
        let entries = self.book.entries();
        self.order = arranged(entries, self.show, &self.filter, self.sort, now);
        let named = |cursor: &str| self.order.iter().position(|place| entries[*place].state.name == cursor);
        let at = self.cursor.as_deref().and_then(named).unwrap_or(self.at);
        self.widest = Widest::of(entries, &self.order);
        self.go_to(at);
    }

    fn go_to(&mut self, row: usize) {
        self.at = row.min(self.order.len().saturating_sub(1));
        self.cursor = self.name_at(self.at).map(ToOwned::to_owned);
        self.keep_in_sight();
    }

    fn keep_in_sight(&mut self) {
        let last = self.order.len().saturating_sub(self.room);
        self.first = self.first.clamp(self.at.saturating_sub(self.room - 1), self.at).min(last);
    }

    fn name_at(&self, row: usize) -> Option<&str> {
        self.order.get(row).and_then(|place| self.book.entries().get(*place)).map(|entry| entry.state.name.as_str())
    }

    /// The lock that keys are about.
    pub(super) fn chosen(&self) -> Option<&str> {
        match &self.page {
            Page::Locks => self.name_at(self.at),
            Page::Lock(name) => Some(name),
            _ => None,
        }
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: Key, now: Instant) -> Option<Effect> {
        self.note = None;
        match key {
            Key::Control('c') => return Some(Effect::Quit),
            Key::Control('z') => return Some(Effect::Suspend),
            Key::Control('l') => return Some(Effect::Repaint),
            _ => {}
        }
        match self.prompt.take() {
            Some(prompt) => self.answer(prompt, key, now),
            None => self.command(key, now),
        }
    }

    /// A key while something is asked for.
    fn answer(&mut self, prompt: Prompt, key: Key, now: Instant) -> Option<Effect> {
        match prompt {
            Prompt::Confirm(deed) => return self.confirm(deed, key, now),
            Prompt::Sort(at) => self.choose_column(at, key, now),
            Prompt::Search(letters) => match key {
                Key::Escape | Key::Enter => {}
                Key::Function(3) | Key::Down => {
                    self.search(&letters, self.at + 1, now);
                    self.prompt = Some(Prompt::Search(letters));
                }
                key => {
                    let letters = edited(letters, key);
                    self.search(&letters, self.at, now);
                    self.prompt = Some(Prompt::Search(letters));
                }
            },
            Prompt::Filter(letters) => match key {
                Key::Enter | Key::Function(4) => {}
                Key::Escape => self.set_filter(String::new(), now),
                key => {
                    let letters = edited(letters, key);
                    self.set_filter(letters.clone(), now);
                    self.prompt = Some(Prompt::Filter(letters));
                }
            },
        }
        None
    }

    fn set_filter(&mut self, letters: String, now: Instant) {
        self.filter = letters;
        self.arrange(now);
    }

    /// To the next lock with these letters, from this row on and round.
    fn search(&mut self, letters: &str, from: usize, now: Instant) {
        let (rows, entries) = (self.order.len(), self.book.entries());
        let mut around = (from..rows).chain(0..from.min(rows));
        match around.find(|row| matches(&entries[self.order[*row]], letters)) {
            Some(row) => self.go_to(row),
            None => self.say("nothing found", now),
        }
    }

    fn choose_column(&mut self, at: usize, key: Key, now: Instant) {
        let last = Column::ALL.len() - 1;
        let at = match key {
            Key::Up => at.saturating_sub(1),
            Key::Down => (at + 1).min(last),
            Key::Home | Key::PageUp => 0,
            Key::End | Key::PageDown => last,
            Key::Enter => return self.sort_by(Sort::by(Column::ALL[at]), now),
            Key::Char(letter) => return self.shortcut(letter, now),
            Key::Escape | Key::Function(_) => return,
            _ => at,
        };
        self.prompt = Some(Prompt::Sort(at));
    }

    fn shortcut(&mut self, letter: char, now: Instant) {
        if let Some(column) = Column::ALL.into_iter().find(|column| column.shortcut() == Some(letter)) {
            self.sort_by(Sort::by(column), now);
        }
    }

    fn sort_by(&mut self, sort: Sort, now: Instant) {
        self.sort = sort;
        // Whoever sorts wants to see what comes first.
        (self.cursor, self.at) = (None, 0);
        self.arrange(now);
    }

    fn confirm(&mut self, deed: Deed, key: Key, now: Instant) -> Option<Effect> {
        if matches!(key, Key::Char('y' | 'Y')) {
            let doing = match deed.act {
                Act::ForceRelease => "releasing",
                Act::AskToYield => "asking for",
            };
            self.say(format!("{doing} {}…", harmless(&deed.name)), now);
            return Some(Effect::Ask(Question::Do(deed)));
        }
        self.say("nothing was done", now);
        None
    }

    /// A key while nothing is asked for.
    fn command(&mut self, key: Key, now: Instant) -> Option<Effect> {
        match key {
            Key::Function(10) => return Some(Effect::Quit),
            Key::Char('q') | Key::Escape if self.page != Page::Locks => return self.open(Page::Locks),
            Key::Char('q') => return Some(Effect::Quit),
            Key::Function(1) | Key::Char('h' | '?') => return self.open(Page::Help),
            Key::Char('n') => return self.open(Page::Nodes),
            Key::Char('d') => {
                self.circles = Circles::Asking;
                self.open(Page::Deadlocks);
                return Some(Effect::Ask(Question::Deadlocks));
            }
            Key::Char(' ' | 'p' | 'Z') => {
                self.paused_at = if self.paused_at.is_some() { None } else { Some(now) };
                return Some(Effect::Ask(Question::Pause(self.paused_at.is_some())));
            }
            Key::Char('r') | Key::Function(5) => return Some(Effect::Ask(Question::Refresh)),
            Key::Char('+') => return self.change_delay(DELAYS_MS.iter().find(|ms| self.is_longer(**ms)).copied(), now),
            Key::Char('-') => {
                let shorter = |ms: &&u64| Duration::from_millis(**ms) < self.options.delay;
                return self.change_delay(DELAYS_MS.iter().rev().find(shorter).copied(), now);
            }
            Key::Char('k') | Key::Function(9) => self.propose(Act::ForceRelease, now),
            Key::Char('a') => self.propose(Act::AskToYield, now),
            key if self.page == Page::Locks => return self.table_key(key, now),
            key => self.page_key(key),
        }
        None
    }

    fn is_longer(&self, ms: u64) -> bool {
        Duration::from_millis(ms) > self.options.delay
    }

    fn change_delay(&mut self, ms: Option<u64>, now: Instant) -> Option<Effect> {
        self.options.delay = Duration::from_millis(ms?);
        self.say(format!("read every {}", pause(self.options.delay)), now);
        Some(Effect::Ask(Question::Delay(self.options.delay)))
    }

    fn open(&mut self, page: Page) -> Option<Effect> {
        let lock = |page: &Page| if let Page::Lock(name) = page { Some(name.clone()) } else { None };
        let (before, after) = (lock(&self.page), lock(&page));
        (self.page, self.scroll) = (page, 0);
        (before != after).then_some(Effect::Ask(Question::Watch(after)))
    }

    fn table_key(&mut self, key: Key, now: Instant) -> Option<Effect> {
        let (page, last) = (self.room, self.order.len().saturating_sub(1));
        match key {
            Key::Up => self.go_to(self.at.saturating_sub(1)),
            Key::Down => self.go_to(self.at + 1),
            Key::PageUp => self.go_to(self.at.saturating_sub(page)),
            Key::PageDown => self.go_to(self.at + page),
            Key::Home => self.go_to(0),
            Key::End => self.go_to(last),
            Key::Enter => {
                let name = self.chosen()?.to_owned();
                return self.open(Page::Lock(name));
            }
            Key::Tab => {
                self.show = self.show.next();
                self.arrange(now);
            }
            Key::Function(3) | Key::Char('/') => self.prompt = Some(Prompt::Search(String::new())),
            Key::Function(4) | Key::Char('\\') => self.prompt = Some(Prompt::Filter(self.filter.clone())),
            Key::Function(6) | Key::Char('s' | '>' | '.') => {
                let at = Column::ALL.iter().position(|column| *column == self.sort.column);
                self.prompt = Some(Prompt::Sort(at.unwrap_or(0)));
            }
            Key::Char('I') => self.sort_by(self.sort.turned_round(), now),
            Key::Escape if !self.filter.is_empty() => self.set_filter(String::new(), now),
            Key::Char(letter) => self.shortcut(letter, now),
            _ => {}
        }
        None
    }

    fn page_key(&mut self, key: Key) {
        let page = self.size.1.saturating_sub(2);
        self.scroll = match key {
            Key::Up => self.scroll.saturating_sub(1),
            Key::Down => self.scroll + 1,
            Key::PageUp => self.scroll.saturating_sub(page),
            Key::PageDown => self.scroll + page,
            Key::Home => 0,
            // As far as it goes.
            Key::End => usize::MAX / 2,
            _ => self.scroll,
        };
    }

    fn propose(&mut self, act: Act, now: Instant) {
        let Some(name) = self.chosen().map(ToOwned::to_owned) else { return };
        if self.options.read_only {
            return self.say("this is a view only: it was started with --read-only", now);
        }
        match self.book.find(&name).and_then(|entry| entry.first().cloned()) {
            Some(holder) => self.prompt = Some(Prompt::Confirm(Deed { act, name, holder })),
            None => self.say(format!("{} is free", harmless(&name)), now),
        }
    }
}

fn edited(mut letters: String, key: Key) -> String {
    match key {
        Key::Char(letter) if letters.chars().count() < LETTERS_MAX => letters.push(letter),
        Key::Backspace => drop(letters.pop()),
        Key::Control('u') => letters.clear(),
        _ => {}
    }
    letters
}
