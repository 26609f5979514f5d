//! Log lines: who wants them, and how they reach `tracing` or `log`.

use std::fmt;

use tracing::Level;
use tracing::dispatcher;
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::subscriber::NoSubscriber;

use crate::event::{Event, EventKind};

/// Whether somebody may want lines of this level. Two atomic reads: no subscriber and no logger is asked.
pub fn is_wanted(level: Level) -> bool {
    let traced = level <= STATIC_MAX_LEVEL && level <= LevelFilter::current();
    traced || as_log(level) <= log::max_level()
}

/// Whether the program has a subscriber of `tracing` for this thread. If not, a line goes to `log`.
pub fn has_subscriber() -> bool {
    dispatcher::get_default(|dispatch| !dispatch.is::<NoSubscriber>())
}

/// Logs a line by `log`.
pub fn to_log(level: Level, target: &str, text: fmt::Arguments<'_>) {
    log::log!(target: target, as_log(level), "{text}");
}

fn as_log(level: Level) -> log::Level {
    match level {
        Level::ERROR => log::Level::Error,
        Level::WARN => log::Level::Warn,
        Level::INFO => log::Level::Info,
        Level::DEBUG => log::Level::Debug,
        _ => log::Level::Trace,
    }
}

/// The level at which an event is logged.
pub(crate) fn level(kind: &EventKind) -> Level {
    match kind {
        EventKind::Lost(_) => Level::ERROR,
        EventKind::RenewalUnknown { .. } => Level::WARN,
        _ => Level::DEBUG,
    }
}

/// Logs an event: by `tracing`, or by `log` in a program without a subscriber.
pub(super) fn log_event(event: &Event) {
    let Event { name, claim, kind, .. } = event;
    if !has_subscriber() {
        return to_log(level(kind), module_path!(), format_args!("{name} #{claim}: {kind:?}"));
    }
    match kind {
        EventKind::Lost(reason) => tracing::error!(lock.name = name, claim, %reason, "lock lost"),
        EventKind::RenewalUnknown { remaining } => {
            tracing::warn!(lock.name = name, claim, ?remaining, "renewal got no answer; the old deadline stands");
        }
        EventKind::Acquired { token, .. } => tracing::debug!(lock.name = name, claim, lock.token = %token, "acquired"),
        other => tracing::debug!(lock.name = name, claim, event = ?other),
    }
}

/// Logs a line later, on the thread that calls code which is not ours: `notice!(WARN, node = address, "…")`. It goes to
/// the program's global subscriber of `tracing`, or to its `log` logger if it has none. The values are made text at once,
/// and only if somebody may want the line.
#[doc(hidden)]
#[macro_export]
macro_rules! notice {
    ($level:ident, $($key:ident = $value:expr,)* $message:literal) => {
        if $crate::foreign::is_wanted($crate::foreign::tracing::Level::$level) {
            $(let $key = ::std::string::ToString::to_string(&$value);)*
            $crate::foreign::later(move || {
                let level = $crate::foreign::tracing::Level::$level;
                if $crate::foreign::has_subscriber() {
                    $crate::foreign::tracing::event!($crate::foreign::tracing::Level::$level, $($key = %$key,)* $message);
                } else {
                    let fields: &[(&str, ::std::string::String)] = &[$((stringify!($key), $key)),*];
                    let fields: ::std::string::String =
                        fields.iter().map(|(key, value)| format!(" {key}={value}")).collect();
                    $crate::foreign::to_log(level, module_path!(), format_args!("{}{fields}", $message));
                }
            });
        }
    };
}
