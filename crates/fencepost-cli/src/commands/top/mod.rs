//! `fencepost top`: locks, lines and nodes, live.
//!
//! Whoever reads the store, the keys and the signals does so on a thread of its own and sends what it has; the loop here
//! puts it into the [`model`], and draws what [`view`] makes of that. So a store that does not answer keeps no key waiting.

mod asker;
mod book;
mod health;
mod input;
mod keys;
mod model;
mod order;
mod paint;
mod terminal;
mod text;
mod view;
mod widest;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use fencepost::{Blocking, Locks};
use nix::sys::signal::Signal;

use asker::{Askers, Told};
use book::Picture;
use keys::Key;
use model::{Effect, Model, Options};
use paint::{Painter, Style};
use terminal::Terminal;

use crate::args::Top;
use crate::child::signals;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::settings::Settings;

/// Spans are in seconds: the screen is drawn that often though nothing was heard.
const TICK: Duration = Duration::from_millis(500);
/// Text that goes to a file or a pipe is as wide as it needs to be, within reason.
const PLAIN_COLUMNS: usize = 160;
/// More than any terminal has.
const PLAIN_COLUMNS_MAX: usize = 1000;

/// What the loop waits for.
enum Message {
    Connected(Result<Locks, Failure>),
    Told(Told),
    Key(Key),
    Signal(Signal),
    /// The terminal is gone.
    Gone,
}

pub(crate) fn top(arguments: Top, settings: Settings) -> Result<ExitCode, Failure> {
    if settings.output.json {
        let cure = "top is for people and has no JSON; use `fencepost ls --json`";
        return Err(Failure::new(ExitCode::USAGE, cure));
    }
    let options = Options {
        store: settings.config.store_redacted(),
        prefix: arguments.prefix,
        delay: arguments.delay,
        limit: usize::try_from(arguments.limit).unwrap_or(usize::MAX),
        read_only: arguments.read_only,
    };
    if arguments.once {
        return once(options, &settings);
    }
    Terminal::check()?;
    let (sender, messages) = channel();
    let heard = sender.clone();
    let signals = [Signal::SIGWINCH, Signal::SIGTSTP, Signal::SIGCONT];
    signals::hear(&signals, move |signal| heard.send(Message::Signal(signal)).is_ok())
        .map_err(|error| Failure::ours("cannot listen for signals", error))?;
    let locks = match connected(settings, &sender, &messages)? {
        Ok(locks) => locks,
        Err(signal) => return Ok(ExitCode::by_signal(signal as i32)),
    };
    watch(&locks, options, &sender, &messages)
}

/// Connects, unless a signal comes first.
fn connected(
    settings: Settings,
    sender: &Sender<Message>,
    messages: &Receiver<Message>,
) -> Result<Result<Locks, Signal>, Failure> {
    let sender = sender.clone();
    let connect = move || drop(sender.send(Message::Connected(settings.locks())));
    std::thread::Builder::new().name("top: connect".into()).spawn(connect).map_err(no_thread)?;
    loop {
        match messages.recv() {
            Ok(Message::Connected(locks)) => return locks.map(Ok),
            Ok(Message::Signal(Signal::SIGWINCH | Signal::SIGCONT | Signal::SIGTSTP)) => {}
            Ok(Message::Signal(signal)) => return Ok(Err(signal)),
            Ok(_) => {}
            Err(_) => return Err(Failure::ours("cannot connect", "the thread is gone")),
        }
    }
}

fn no_thread(error: std::io::Error) -> Failure {
    Failure::ours("cannot start a thread", error)
}

/// From the first look to the last key.
fn watch(
    locks: &Locks,
    options: Options,
    sender: &Sender<Message>,
    messages: &Receiver<Message>,
) -> Result<ExitCode, Failure> {
    let style = Style::from_environment(|name| std::env::var(name).ok());
    let mut model = Model::new(options, Terminal::size());
    let mut terminal = Terminal::take(Painter::new(style))?;
    let told = sender.clone();
    let askers = Askers::start(locks, &model.options, move |answer| told.send(Message::Told(answer)).is_ok());
    let askers = askers.map_err(no_thread)?;
    let pressed = sender.clone();
    input::listen(move |key| pressed.send(key.map_or(Message::Gone, Message::Key)).is_ok()).map_err(no_thread)?;
    loop {
        draw(&mut terminal, &mut model)?;
        let first = match messages.recv_timeout(TICK) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(ExitCode::DONE),
        };
        // Whatever has gathered is drawn once.
        for message in first.into_iter().chain(messages.try_iter()) {
            if let Some(code) = handle(message, &mut model, &mut terminal, &askers)? {
                return Ok(code);
            }
        }
    }
}

fn draw(terminal: &mut Terminal, model: &mut Model) -> Result<(), Failure> {
    let now = Instant::now();
    view::fit(model, now);
    terminal.show(&view::screen(model, now), model.size.0)
}

/// `Some`: that was the last.
fn handle(
    message: Message,
    model: &mut Model,
    terminal: &mut Terminal,
    askers: &Askers,
) -> Result<Option<ExitCode>, Failure> {
    let now = Instant::now();
    let effect = match message {
        Message::Connected(_) => None,
        Message::Told(told) => {
            model.hear(told, now);
            None
        }
        Message::Key(key) => model.press(key, now),
        Message::Gone => Some(Effect::Quit),
        Message::Signal(Signal::SIGWINCH) => {
            model.resize(Terminal::size());
            Some(Effect::Repaint)
        }
        Message::Signal(Signal::SIGTSTP) => Some(Effect::Suspend),
        Message::Signal(Signal::SIGCONT) => {
            terminal.resume()?;
            model.resize(Terminal::size());
            None
        }
        Message::Signal(signal) => return Ok(Some(ExitCode::by_signal(signal as i32))),
    };
    match effect {
        None => {}
        Some(Effect::Quit) => return Ok(Some(ExitCode::DONE)),
        Some(Effect::Repaint) => terminal.forget(),
        Some(Effect::Suspend) => {
            terminal.suspend()?;
            model.resize(Terminal::size());
        }
        Some(Effect::Ask(question)) => askers.ask(question)?,
    }
    Ok(None)
}

/// One reading, as text.
fn once(options: Options, settings: &Settings) -> Result<ExitCode, Failure> {
    let locks = settings.locks()?;
    let asked_at = Instant::now();
    let (states, is_cut) = asker::listing(&locks, &options.prefix, options.limit, |_| ())?;
    let votes = locks.nodes().block();
    let now = Instant::now();
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(PLAIN_COLUMNS);
    let mut model = Model::new(options, (columns.min(PLAIN_COLUMNS_MAX), usize::MAX));
    model.hear(Told::Picture(Picture { states, is_cut, asked_at, read_at: now }), now);
    model.hear(Told::Nodes(votes), now);
    settings.output.print(&view::plain(&model, now))?;
    Ok(ExitCode::DONE)
}
