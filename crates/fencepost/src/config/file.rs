//! One `fencepost.toml`.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::{ConfigError, parse_duration};

/// What one file says.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(skip)]
    pub(super) path: PathBuf,
    pub(super) store: Option<String>,
    pub(super) records: Option<String>,
    pub(super) label: Option<String>,
    #[serde(default, deserialize_with = "ttl")]
    pub(super) ttl: Option<Duration>,
}

impl File {
    /// A file that somebody named: it has to be there.
    pub(super) fn named(path: PathBuf) -> Result<Self, ConfigError> {
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    /// A file that may be there.
    pub(super) fn found(path: PathBuf) -> Result<Option<Self>, ConfigError> {
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(path, &text).map(Some),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    pub(super) fn parse(path: PathBuf, text: &str) -> Result<Self, ConfigError> {
        let parsed = toml::from_str::<Self>(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let key = line.and_then(|line| text.lines().nth(line - 1)).and_then(|line| line.split_once('='));
            let key = key.map(|(key, _)| format!("{}: ", key.trim())).unwrap_or_default();
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            ConfigError {
                place: format!("{}{line}", path.display()),
                cure: format!("{key}{}", error.message().replace('\n', " ")),
            }
        })?;
        Ok(Self { path, ..parsed })
    }
}

fn unreadable(path: &std::path::Path, error: &io::Error) -> ConfigError {
    ConfigError { place: path.display().to_string(), cure: format!("cannot be read: {error}") }
}

fn ttl<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    deserializer.deserialize_any(TtlVisitor).map(Some)
}

struct TtlVisitor;

impl Visitor<'_> for TtlVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"30s\", or a number of seconds")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).map_err(|cure| E::custom(format!("{text:?} is {cure}")))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
        self.visit_str(&seconds.to_string())
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Duration, E> {
        self.visit_str(&seconds.to_string())
    }
}
