//! What flags, environment and files say together.

use fencepost::config::{Config, Setting, Source};
use fencepost::store::LockName;
use fencepost::{Connect, Locks};

use crate::args::{Global, Typed};
use crate::connections::Connections;
use crate::failure::Failure;
use crate::output::Output;

/// The settings of one invocation.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// This command keeps records. Others do without the store that is configured for them.
    pub(crate) keeps_records: bool,
    pub(crate) output: Output,
    pub(crate) typed: Typed,
    connections: Connections,
}

impl Settings {
    /// What it opens is closed with these connections.
    pub(crate) fn load(global: Global, connections: Connections) -> Result<Self, Failure> {
        let Global { store, config, json, quiet, verbose, typed } = global;
        let mut config = Config::load(config.as_deref())?;
        if let Some(url) = store {
            config.store = Setting::by_flag(url, "--store");
        }
        Ok(Self { config, keeps_records: false, output: Output { json, quiet, verbose }, typed, connections })
    }

    /// A connection to be, which is to be [opened](Self::open) here. Says so if nobody chose where locks live, because the
    /// default protects one user only.
    pub(crate) fn connect(&self) -> Connect {
        self.say_if_unset();
        let mut config = self.config.clone();
        config.records = config.records.filter(|_| self.keeps_records);
        config.connect()
    }

    /// Nobody chose where locks live.
    pub(crate) fn say_if_unset(&self) {
        if self.config.store.source == Source::Default {
            let scope = "no store configured: locks are for this user on this machine only; see --store";
            self.output.note(scope);
        }
    }

    /// Where a connection of another thread is opened.
    pub(crate) fn connections(&self) -> Connections {
        self.connections.clone()
    }

    pub(crate) fn open(&self, connect: Connect) -> Result<Locks, Failure> {
        Ok(self.connections.open(connect)?)
    }

    pub(crate) fn locks(&self) -> Result<Locks, Failure> {
        self.open(self.connect())
    }
}

/// A name that a store would take.
pub(crate) fn checked_name(name: &str) -> Result<(), Failure> {
    LockName::new(name)?;
    Ok(())
}
