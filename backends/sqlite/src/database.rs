//! The file: its schema, and who may write to it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fencepost_core::store::table::REMEMBER;
use fencepost_core::store::{Clock, FencingToken, StoreErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, named_params};

use crate::error::Failure;
use crate::gate::Pass;
use crate::path;
use crate::presence::Presence;
use crate::shelf::nanos;

/// "Fpst": tells our files from those of other programs.
const APPLICATION_ID: i32 = 0x4670_7374;
const SCHEMA_VERSION: i32 = 4;
/// What each version added to the one before, from the second on.
const CHANGES: [&str; 3] =
    [include_str!("sql/to_version_2.sql"), include_str!("sql/to_version_3.sql"), include_str!("sql/to_version_4.sql")];
/// How long a program that knows nothing of the gate may keep the file to itself.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long another program may take to close the file, for it to count as open to nobody else.
const ALONE_WITHIN: Duration = Duration::from_secs(1);
/// How often old rows are looked for.
const PRUNE_PAUSE: Duration = Duration::from_secs(3600);

/// An open file of locks.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) file: PathBuf,
    pub(crate) connection: Connection,
    gate: File,
    pub(crate) presence: Arc<Presence>,
}

impl Database {
    /// Opens the file, or makes it. Nothing is left behind if that fails. `before`: the presence of a store that opens it
    /// again.
    pub(crate) fn open(file: &Path, clock: &Clock, before: Option<&Arc<Presence>>) -> Result<Self, Failure> {
        let boot_id = boot_id(file)?;
        let is_new = !file.exists();
        let gate_file = path::beside(file, "-gate");
        let gate = path::open_beside(file, &gate_file).map_err(|error| Failure::io(&gate_file, &error))?;
        let pass = Pass::through(&gate, file)?;
        let opened = make(file).map_err(|error| Failure::io(file, &error)).and_then(|()| {
            let presence = match before.filter(|presence| presence.is_of(file)) {
                Some(presence) => presence.clone(),
                None => Arc::new(Presence::of(file).map_err(|(at, error)| Failure::io(&at, &error))?),
            };
            prepared(file, clock, &boot_id, &presence).map(|connection| (connection, presence))
        });
        let (connection, presence) = opened.inspect_err(|_| {
            if is_new && fs::metadata(file).is_ok_and(|found| found.len() == 0) {
                let _ = fs::remove_file(file);
            }
            if is_new && !file.exists() {
                let _ = fs::remove_file(&gate_file);
                let _ = fs::remove_file(path::beside(file, "-open"));
            }
        })?;
        drop(pass);
        Ok(Self { file: file.to_owned(), connection, gate, presence })
    }

    /// Waits for the gate. While the answer lives, nobody else writes.
    pub(crate) fn pass(&self) -> Result<Pass<'_>, Failure> {
        Pass::through(&self.gate, &self.file)
    }

    /// Closes the file. The last one out tidies it up, which nobody else may see half done.
    pub(crate) fn close(self) {
        let Self { file, connection, gate, presence: _ } = self;
        let pass = Pass::through(&gate, &file);
        drop(connection);
        drop(pass);
    }

    /// The path still leads to the file that was opened: nobody deleted or replaced it.
    pub(crate) fn is_in_place(&self) -> bool {
        self.presence.is_of(&self.file)
    }

    /// Forgets what is over and what nobody used for long, now and then.
    pub(crate) fn prune(transaction: &Transaction<'_>, clock: &Clock) -> rusqlite::Result<()> {
        let now_ms = now_ms(clock);
        let pruned_at_ms: i64 = transaction.query_row("SELECT pruned_at_ms FROM meta", [], |row| row.get(0))?;
        if now_ms.abs_diff(pruned_at_ms) < PRUNE_PAUSE.as_secs() * 1000 {
            return Ok(());
        }
        let now = clock.now();
        let params = named_params! { ":now_ns": nanos(now) };
        transaction.execute(include_str!("sql/prune_over.sql"), params)?;
        transaction.execute(include_str!("sql/prune_gone.sql"), params)?;
        let before_ns = now.as_nanos().checked_sub(u64::try_from(REMEMBER.as_nanos()).unwrap_or(u64::MAX));
        if let Some(before_ns) = before_ns.and_then(|nanos| i64::try_from(nanos).ok()) {
            transaction.execute(include_str!("sql/prune_revoked.sql"), named_params! { ":before_ns": before_ns })?;
        }
        let before_ms = now_ms - i64::try_from(REMEMBER.as_millis()).unwrap_or(i64::MAX);
        let clock = FencingToken::at(clock.wall()).as_i64();
        let params = named_params! { ":before_ms": before_ms, ":clock": clock };
        transaction.execute(include_str!("sql/prune_locks.sql"), params)?;
        transaction.execute(include_str!("sql/prune_records.sql"), named_params! { ":clock": clock })?;
        transaction.execute("UPDATE meta SET pruned_at_ms = ?1", [now_ms])?;
        Ok(())
    }
}

/// Wall time for rows that outlive a restart of the machine.
pub(crate) fn now_ms(clock: &Clock) -> i64 {
    let since_1970 = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

/// Makes the file if there is none, for its owner only.
///
/// A file that is there is left to SQLite: whoever else closes it ends the locks that this process has on it.
fn make(file: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// A connection to a file that is ours, of our version and our boot.
fn prepared(file: &Path, clock: &Clock, boot_id: &str, presence: &Presence) -> Result<Connection, Failure> {
    let said = |error: rusqlite::Error| Failure::sqlite(file, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(file, flags).map_err(said)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(said)?;
    connection.set_prepared_statement_cache_capacity(32);
    // Else a statement is compiled again whenever it is bound to another name, which costs more than to run it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(said)?;
    let is_new = refuse_others(file, &connection)?;
    if !is_new {
        refuse_other_boots(file, &connection, boot_id, presence)?;
    }
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(said)?;
    if mode != "wal" {
        let cure = "name a file on a local disk";
        let what = format!("cannot be shared by processes here (journal mode {mode:?})");
        return Err(Failure::new(StoreErrorKind::Misconfigured, file, what, cure));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(said)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(said)?;
    if is_new {
        create(&transaction, clock, boot_id).map_err(said)?;
    } else {
        migrate(&transaction).map_err(said)?;
    }
    begin_boot(&transaction, boot_id).map_err(said)?;
    Database::prune(&transaction, clock).map_err(said)?;
    transaction.commit().map_err(said)?;
    Ok(connection)
}

/// Answers whether the file is still empty. It is changed only if it is ours.
fn refuse_others(file: &Path, connection: &Connection) -> Result<bool, Failure> {
    let said = |error: rusqlite::Error| Failure::sqlite(file, &error);
    let read = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0)).map_err(said);
    let (application_id, version) = (read("application_id")?, read("user_version")?);
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(said)?;
    if tables == 0 {
        return Ok(true);
    }
    if application_id != APPLICATION_ID {
        let what = "is the database of another program";
        return Err(Failure::new(StoreErrorKind::Misconfigured, file, what, "choose another file for the locks"));
    }
    if version > SCHEMA_VERSION {
        let what = format!("has schema version {version}, and this program knows {SCHEMA_VERSION}");
        let cure = "update this program, or give it a file of its own";
        return Err(Failure::new(StoreErrorKind::Misconfigured, file, what, cure));
    }
    Ok(false)
}

/// Refuses a file of another boot id that somebody has open: a container may have a boot id of its own on a kernel that has
/// not restarted, and then the leases in the file are live.
fn refuse_other_boots(file: &Path, connection: &Connection, boot_id: &str, presence: &Presence) -> Result<(), Failure> {
    if written_boot_id(connection).map_err(|error| Failure::sqlite(file, &error))? == boot_id {
        return Ok(());
    }
    let is_alone = presence.is_alone().map_err(|(at, error)| Failure::io(&at, &error))?;
    if is_alone && is_open_here_only(file, connection)? {
        return Ok(());
    }
    let what = "was last used under another boot id than this process has, and another process has it open: the locks in \
                it may be held";
    let cure = "let every process that uses it see one /proc/sys/kernel/random/boot_id, or give each container a file of \
                its own, or use a server; after a restart of the machine, end the program that has it open";
    Err(Failure::new(StoreErrorKind::Misconfigured, file, what, cure))
}

/// What SQLite itself knows: programs of an older version leave no other sign. Only who has the file alone may leave the
/// journal mode WAL, which is set again as for any file.
fn is_open_here_only(file: &Path, connection: &Connection) -> Result<bool, Failure> {
    let said = |error: rusqlite::Error| Failure::sqlite(file, &error);
    connection.busy_timeout(ALONE_WITHIN).map_err(said)?;
    let left = connection.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0));
    connection.busy_timeout(BUSY_TIMEOUT).map_err(said)?;
    match left {
        Ok(mode) => Ok(mode == "delete"),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
        Err(error) => Err(said(error)),
    }
}

fn written_boot_id(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("SELECT boot_id FROM meta", [], |row| row.get(0))
}

fn create(transaction: &Transaction<'_>, clock: &Clock, boot_id: &str) -> rusqlite::Result<()> {
    transaction.execute_batch(include_str!("sql/schema.sql"))?;
    let first = "INSERT INTO meta (one, boot_id, pruned_at_ms) VALUES (1, ?1, ?2)";
    transaction.execute(first, (boot_id, now_ms(clock)))?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)
}

/// Brings the file of an older program up to our version. Such a program goes on with it as long as it has it open.
fn migrate(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    let done = usize::try_from(version - 1).unwrap_or_default();
    CHANGES.iter().skip(done).try_for_each(|change| transaction.execute_batch(change))?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)
}

fn begin_boot(transaction: &Transaction<'_>, boot_id: &str) -> rusqlite::Result<()> {
    if written_boot_id(transaction)? == boot_id {
        return Ok(());
    }
    transaction.execute_batch(include_str!("sql/new_boot.sql"))?;
    transaction.execute("UPDATE meta SET boot_id = ?1", [boot_id])?;
    Ok(())
}

/// Which start of the machine this is.
#[cfg(target_os = "linux")]
fn boot_id(_file: &Path) -> Result<String, Failure> {
    let source = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(source).map_err(|error| {
        let cure = "mount /proc: without it nobody can tell leases of before a restart";
        Failure::new(StoreErrorKind::Misconfigured, source, error.to_string(), cure)
    })?;
    Ok(text.trim().to_owned())
}

#[cfg(not(target_os = "linux"))]
fn boot_id(file: &Path) -> Result<String, Failure> {
    let what = "processes have no common clock on this system, so leases cannot be shared through a file";
    Err(Failure::new(StoreErrorKind::Unsupported, file, what, "use a server: redis, postgres, etcd"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;

    #[test]
    fn a_statement_is_compiled_once_for_all_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Clock::system().expect("a clock");
        let database = Database::open(&folder.path().join("locks.db"), &clock, None).expect("opens");
        for sql in [include_str!("sql/holders.sql"), include_str!("sql/last.sql"), include_str!("sql/waiter_count.sql")]
        {
            for name in ["a", "b", "c"] {
                let mut statement = database.connection.prepare_cached(sql).expect("compiled");
                statement.exists(named_params! { ":name": name }).expect("read");
                assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
            }
        }
    }
}
