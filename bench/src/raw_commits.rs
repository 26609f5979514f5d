//! What a pair of acquire and release costs at least in a file: two durable commits, made by hand.

use std::thread;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::Outcome;
use crate::process::now;
use crate::runner::Samples;

const CHANGE: &str = "INSERT INTO raw (one, number) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET number = number + 1";

pub(crate) struct RawCommits(Connection);

impl RawCommits {
    /// Opens a file that is there; beside the locks a table of its own is made.
    pub(crate) fn open(file: &str) -> Outcome<Self> {
        let connection = Connection::open(file)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection
            .execute_batch("CREATE TABLE IF NOT EXISTS raw (one INTEGER PRIMARY KEY, number INTEGER NOT NULL)")?;
        Ok(Self(connection))
    }

    /// Makes so many pairs of commits, with a rest before each: a disk and a processor that were idle are slower.
    pub(crate) fn pairs(&mut self, count: usize, rest: Duration, samples: &mut Samples) -> Outcome<()> {
        for _ in 0..count {
            if !rest.is_zero() {
                thread::sleep(rest);
            }
            let began = now();
            self.commit()?;
            self.commit()?;
            samples.extend([now() - began]);
        }
        Ok(())
    }

    fn commit(&mut self) -> rusqlite::Result<()> {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.prepare_cached(CHANGE)?.execute([])?;
        transaction.commit()
    }
}
