//! Where settings come from: flag, environment, files, default; the first that speaks wins.

mod duration;
mod file;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_core::{Connect, Invalid};

pub use duration::parse_duration;

use crate::connect::{connect, redacted};
use file::File;

/// The store when nobody names one: the embedded file, for this user on this machine.
const STORE_DEFAULT: &str = "sqlite:";
const TTL_DEFAULT: Duration = Duration::from_secs(30);
const FILE_NAME: &str = "fencepost.toml";

/// Connects as the environment and the configuration files say, else to the embedded default.
///
/// Reads, first come first served: `FENCEPOST_STORE`, `FENCEPOST_RECORDS`, `FENCEPOST_LABEL`, `FENCEPOST_TTL`;
/// `./fencepost.toml`; `$XDG_CONFIG_HOME/fencepost/fencepost.toml`; `/etc/fencepost/fencepost.toml`. `FENCEPOST_CONFIG`
/// names one file to read instead of the three. A bad configuration is reported when the answer is awaited.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = fencepost::connect_from_config().await?;
/// # Ok(()) }
/// ```
pub fn connect_from_config() -> Connect {
    match Config::load(None) {
        Ok(config) => config.connect(),
        Err(error) => {
            let mut invalid = Invalid::new("configuration", "", error.cure);
            // Not shortened: the end of a path is what names the file.
            invalid.value = error.place;
            Connect::invalid(invalid)
        }
    }
}

/// What was configured, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where locks live, as a URL. It may hold a password: show [`store_redacted`](Config::store_redacted).
    pub store: Setting<String>,
    /// Where records are kept, as a URL that may hold a password too. `None`: in the store.
    pub records: Option<Setting<String>>,
    /// Who we are. `None`: host and process id.
    pub label: Option<Setting<String>>,
    /// The ttl of every lock that says nothing else.
    pub ttl: Setting<Duration>,
}

/// A value and where it was set.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it was set.
    pub source: Source,
}

impl<T> Setting<T> {
    /// A value that a flag of a command line set.
    pub fn by_flag(value: T, flag: &'static str) -> Self {
        Self { value, source: Source::Flag(flag) }
    }
}

/// Where a value was set.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Source {
    /// On the command line, by this flag.
    Flag(&'static str),
    /// By this environment variable.
    Environment(&'static str),
    /// In this file.
    File(PathBuf),
    /// Nowhere.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Environment(name) => f.write_str(name),
            Self::File(path) => path.display().fmt(f),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A configuration that cannot be used, in one line: where, what, the cure.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConfigError {
    /// The variable, or the file and its line.
    pub place: String,
    /// What is wrong there, and what to do.
    pub cure: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.cure)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads environment and files. `file`: read this one instead of searching.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::read(&|name| std::env::var_os(name), file)
    }

    /// A connection with these settings.
    pub fn connect(&self) -> Connect {
        let mut locks = connect(&self.store.value).ttl(self.ttl.value);
        if let Some(records) = &self.records {
            locks = locks.keep_records_in(connect(&records.value));
        }
        match &self.label {
            Some(label) => locks.label(&label.value),
            None => locks,
        }
    }

    /// The store without its password.
    pub fn store_redacted(&self) -> String {
        redacted(&self.store.value)
    }

    /// Where records are kept, without the password.
    pub fn records_redacted(&self) -> Option<String> {
        self.records.as_ref().map(|records| redacted(&records.value))
    }

    fn read(environment: &dyn Fn(&str) -> Option<OsString>, file: Option<&Path>) -> Result<Self, ConfigError> {
        let variable = |name: &'static str| match environment(name).map(OsString::into_string) {
            Some(Ok(text)) if text.is_empty() => Ok(None),
            Some(Ok(value)) => Ok(Some(Setting { value, source: Source::Environment(name) })),
            Some(Err(_)) => Err(ConfigError { place: name.into(), cure: "is not UTF-8: set it again".into() }),
            None => Ok(None),
        };
        let ttl = match variable("FENCEPOST_TTL")? {
            Some(Setting { value, source }) => {
                let wrong = |cure| ConfigError { place: source.to_string(), cure: format!("{value:?}: {cure}") };
                Some(Setting { value: parse_duration(&value).map_err(wrong)?, source })
            }
            None => None,
        };
        let (mut store, mut records) = (variable("FENCEPOST_STORE")?, variable("FENCEPOST_RECORDS")?);
        let (mut label, mut ttl) = (variable("FENCEPOST_LABEL")?, ttl);

        let named = file.map(Path::to_owned).or_else(|| path_in(environment, "FENCEPOST_CONFIG"));
        let files = match named {
            Some(path) => vec![File::named(path)?],
            None => found(searched(environment))?,
        };
        for file in files {
            let source = Source::File(file.path);
            store = store.or_else(|| file.store.map(|value| Setting { value, source: source.clone() }));
            records = records.or_else(|| file.records.map(|value| Setting { value, source: source.clone() }));
            label = label.or_else(|| file.label.map(|value| Setting { value, source: source.clone() }));
            ttl = ttl.or_else(|| file.ttl.map(|value| Setting { value, source }));
        }
        let source = Source::Default;
        Ok(Self {
            store: store.unwrap_or(Setting { value: STORE_DEFAULT.into(), source: source.clone() }),
            records,
            label,
            ttl: ttl.unwrap_or(Setting { value: TTL_DEFAULT, source }),
        })
    }
}

/// Project, user, system: the nearer wins.
fn searched(environment: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let home = || path_in(environment, "HOME").map(|home| home.join(".config"));
    // The XDG specification has relative paths ignored.
    let user = path_in(environment, "XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(home);
    let below = |folder: PathBuf| folder.join("fencepost").join(FILE_NAME);
    [Some(PathBuf::from(FILE_NAME)), user.map(below), Some(below("/etc".into()))].into_iter().flatten().collect()
}

fn found(paths: Vec<PathBuf>) -> Result<Vec<File>, ConfigError> {
    paths.into_iter().filter_map(|path| File::found(path).transpose()).collect()
}

fn path_in(environment: &dyn Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    environment(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (PathBuf, Result<File, ConfigError>) {
        let path = PathBuf::from("some/fencepost.toml");
        (path.clone(), File::parse(path, text))
    }

    #[test]
    fn a_file_sets_store_records_label_and_ttl() {
        let text = "store = 'redlock://a,b,c'\nrecords = 'memory:'\nlabel = 'api-3'\nttl = '1m30s'";
        let file = written(text).1.expect("a good file");
        assert_eq!((file.store.as_deref(), file.records.as_deref()), (Some("redlock://a,b,c"), Some("memory:")));
        assert_eq!(file.label.as_deref(), Some("api-3"));
        assert_eq!(file.ttl, Some(Duration::from_secs(90)));
        assert_eq!(written("ttl = 2.5").1.expect("a number").ttl, Some(Duration::from_millis(2500)));
    }

    #[test]
    fn a_bad_file_is_named_with_line_key_and_cure() {
        for (text, line, says) in [
            ("label = 'a'\nstroe = 'memory:'", ":2", "`stroe`"),
            ("\n\nttl = 'soon'", ":3", "ttl"),
            ("ttl = -1", ":1", "negative"),
            ("store = 7", ":1", "store"),
            ("store = ", ":1", ""),
        ] {
            let (path, error) = (written(text).0, written(text).1.expect_err(text));
            assert_eq!(error.place, format!("{}{line}", path.display()), "{error}");
            assert!(error.cure.contains(says), "{error}");
            assert!(!error.to_string().contains('\n'), "one line: {error}");
        }
    }

    #[test]
    fn the_environment_wins_over_the_default_and_empty_is_unset() {
        let set = |name: &str| match name {
            "FENCEPOST_STORE" => Some("memory:".into()),
            "FENCEPOST_LABEL" => Some("".into()),
            "HOME" => Some("/nowhere".into()),
            _ => None,
        };
        let config = Config::read(&set, None).expect("good settings");
        assert_eq!(config.store.source, Source::Environment("FENCEPOST_STORE"));
        assert_eq!((config.label, config.ttl.source), (None, Source::Default));
    }
}
