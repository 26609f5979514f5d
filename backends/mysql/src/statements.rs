//! Statements, with names and values in them.

use std::fmt::Write as _;

use fencepost_core::store::table::{Held, Kept, Queued};
use fencepost_core::store::{Claim, FencingToken, LockName, Mode, Moment, Owner};
use fencepost_sql::{Changes, LockRow, Tables, Want};

use crate::text::{bytes, list, maybe, text};

/// The clock of the database; the session's time zone is UTC, so no hour happens twice.
const NOW_US: &str = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)";
/// The same as a token: 1024 per millisecond from 2025-01-01 on.
const CLOCK: &str = "((CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED) - 1735689600000000) * 1024 DIV 1000)";
const SELECT_NOW: &str = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)";
const TOKEN_MAX: i64 = (1 << 53) - 1;
/// Lines longer than this are full, so nobody counts further.
const COUNT_MAX: i64 = 20_000;

/// What every session begins with. `wait_timeout` is how long a client that was stopped in the middle of a step can keep
/// its row locked; MariaDB, which alone reads the comment, can tell such a one from an idle one.
pub(crate) const SESSION: [&str; 2] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION time_zone = '+00:00', autocommit = 1, innodb_lock_wait_timeout = 10, wait_timeout = 30 \
     /*M!100303 , idle_transaction_timeout = 2 */",
];

/// How long a step waits for a row, as in [`SESSION`], and how long whoever cleans up does: nobody shall wait for that.
pub(crate) const PATIENCE: &str = "SET SESSION innodb_lock_wait_timeout = 10";
pub(crate) const PATIENCE_WHILE_PRUNING: &str = "SET SESSION innodb_lock_wait_timeout = 1";

/// Makes statements for one layout of tables.
#[derive(Debug)]
pub(crate) struct Statements {
    tables: Tables,
    pub(crate) schema: String,
    pub(crate) from_1: String,
    /// Takes a lock that is free; the server keeps it, as the next one, for each session.
    pub(crate) take: String,
    pub(crate) free: String,
}

impl Statements {
    pub(crate) fn new(tables: Tables) -> Self {
        let schema = tables.fill(include_str!("sql/schema.sql"));
        let from_1 = tables.fill(include_str!("sql/from_1.sql"));
        // Right whether assignments are made from left to right or all at once: what a column shall be rests on none that was
        // assigned before it.
        let take = tables.fill(&format!(
            "UPDATE {{locks}} SET owner = ?, shared = ?, label = ?, attempt = ?, actor = ?, since_us = {NOW_US}, \
             used_us = {NOW_US}, until_us = {NOW_US} + ?, ask_number = NULL, ask_by = NULL, ask_note = NULL, \
             token = GREATEST(newest_token + 1, {CLOCK}), \
             newest_token = LAST_INSERT_ID(GREATEST(newest_token + 1, {CLOCK})) \
             WHERE name = ? AND busy = 0 AND (owner IS NULL OR until_us <= {NOW_US}) AND late_until_us <= {NOW_US} \
             AND newest_token < {TOKEN_MAX} AND {NOW_US} < ?"
        ));
        let free = tables.fill(&format!(
            "UPDATE {{locks}} SET used_us = {NOW_US}, owner = NULL, label = NULL, actor = NULL, ask_number = NULL, \
             ask_by = NULL, ask_note = NULL \
             WHERE name = ? AND owner = ? AND until_us > {NOW_US} AND busy = 0 AND newest_token >= ?"
        ));
        Self { tables, schema, from_1, take, free }
    }

    pub(crate) fn check(&self) -> String {
        self.tables.fill(&format!("SELECT version, {NOW_US} FROM {{meta}}"))
    }

    pub(crate) fn begin(&self, want: &Want) -> String {
        let name = bytes(want.name.as_str());
        let lock = self.tables.fill(&format!(
            "START TRANSACTION; INSERT INTO {{locks}} (name, newest_token, used_us, busy) \
             VALUES ({name}, 0, {NOW_US}, 0) ON DUPLICATE KEY UPDATE newest_token = newest_token; "
        ));
        lock + &self.page(want)
    }

    /// The row of the lock is there and locked.
    pub(crate) fn page(&self, want: &Want) -> String {
        self.rows(want, "FROM {locks} WHERE")
    }

    /// There may be no row.
    pub(crate) fn look(&self, want: &Want) -> String {
        self.rows(want, "FROM (SELECT 1) AS one LEFT JOIN {locks} ON")
    }

    /// Several statements, in the order of [`RowKind`](fencepost_sql::RowKind): the server is quicker with each of them
    /// than with their union, for which it makes a table.
    fn rows(&self, want: &Want, from_lock: &str) -> String {
        let name = bytes(want.name.as_str());
        let lock = format!(
            "SELECT 0, owner, token, shared, label, since_us, until_us, 0, attempt, actor, ask_number, ask_by, ask_note, \
             NULL, COALESCE(newest_token, 0), COALESCE(busy, 0), COALESCE(late_until_us, 0), {NOW_US} \
             {from_lock} name = {name}"
        );
        let holders = format!(
            "SELECT 1, owner, token, shared, label, since_us, until_us, 0, attempt, actor, ask_number, ask_by, ask_note, \
             NULL FROM {{holders}} WHERE name = {name}"
        );
        let places = |kind: u8, which: String| {
            format!(
                "SELECT {kind}, owner, ticket, shared, label, since_us, until_us, kept_us, attempt, actor, NULL, NULL, \
                 NULL, inbox FROM {{waiters}} WHERE name = {name} {which}"
            )
        };
        let mut all = vec![lock, holders];
        if want.line > 0 {
            all.push(places(2, format!("ORDER BY ticket, owner LIMIT {}", want.line)));
        }
        if let Some(owner) = &want.revoked {
            all.push(format!(
                "SELECT 4, owner, 0, 0, '', 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL FROM {{revoked}} \
                 WHERE name = {name} AND owner = {}",
                text(&owner.expose())
            ));
        }
        if !want.places.is_empty() {
            let owners: Vec<String> = want.places.iter().map(Owner::expose).collect();
            all.push(places(3, format!("AND owner IN ({})", list(owners.iter().map(String::as_str)))));
            all.push(format!(
                "SELECT 5, NULL, COUNT(*), 0, '', \
                 COALESCE((SELECT MAX(ticket) FROM {{waiters}} WHERE name = {name}), 0), \
                 0, 0, 0, NULL, NULL, NULL, NULL, NULL \
                 FROM (SELECT 1 FROM {{waiters}} WHERE name = {name} LIMIT {COUNT_MAX}) AS places"
            ));
        }
        self.tables.fill(&all.join("; "))
    }

    /// All that changed, and the commit. What comes after a statement that failed is not run.
    pub(crate) fn commit(&self, name: &LockName, changes: &Changes) -> String {
        let (key, now_us, mut all) = (bytes(name.as_str()), changes.now_us, String::new());
        let mut add = |statement: String| write!(all, "{}; ", self.tables.fill(&statement)).expect("BUG: memory");
        let owners = |owners: &[Owner]| {
            let owners: Vec<String> = owners.iter().map(Owner::expose).collect();
            list(owners.iter().map(String::as_str))
        };
        let (left, gone) = (&changes.drop_holders, changes.dropped_waiters());
        if !left.is_empty() {
            add(format!("DELETE FROM {{holders}} WHERE name = {key} AND owner IN ({})", owners(left)));
        }
        if !gone.is_empty() {
            add(format!("DELETE FROM {{waiters}} WHERE name = {key} AND owner IN ({})", owners(&gone)));
        }
        changes.put_holders.iter().for_each(|held| add(put_holder(&key, held)));
        let waiters = changes.waiters.values().flatten();
        waiters.for_each(|(queued, inbox)| add(put_waiter(&key, queued, inbox.as_deref())));
        for owner in &changes.revoked {
            let owner = text(&owner.expose());
            add(format!("REPLACE INTO {{revoked}} (name, owner, at_us) VALUES ({key}, {owner}, {now_us})"));
        }
        if let Some(row) = &changes.row {
            add(put_lock(&key, row, changes));
        }
        all + "COMMIT"
    }

    pub(crate) fn names(&self, prefix: &str, after: &str, limit: u32, contended: bool) -> String {
        let (columns, table) = if contended { ("DISTINCT name", "{waiters}") } else { ("name", "{locks}") };
        let (prefix, after) = (bytes(prefix), bytes(after));
        self.tables.fill(&format!(
            "SELECT {columns} FROM {table} WHERE name >= {prefix} AND name > {after} ORDER BY name LIMIT {limit}"
        ))
    }

    /// A single grant is in the row of its lock; only readers can be several.
    pub(crate) fn grants<'a>(&self, claims: impl Iterator<Item = &'a Claim> + Clone) -> String {
        let wanted = |claims: &mut dyn Iterator<Item = &'a Claim>| {
            let pair = |claim: &Claim| format!("({}, {})", bytes(claim.name.as_str()), text(&claim.owner.expose()));
            claims.map(pair).collect::<Vec<_>>().join(", ")
        };
        let names: Vec<String> = claims.clone().map(|claim| bytes(claim.name.as_str())).collect();
        let mut all = format!(
            "SELECT owner, token, attempt FROM {{locks}} WHERE name IN ({}) AND (name, owner) IN ({}) \
             AND until_us > {NOW_US}",
            names.join(", "),
            wanted(&mut claims.clone()),
        );
        let readers = wanted(&mut claims.filter(|claim| claim.mode == Mode::Shared));
        if !readers.is_empty() {
            let several = "UNION ALL SELECT owner, token, attempt FROM {holders} WHERE (name, owner) IN";
            write!(all, " {several} ({readers}) AND until_us > {NOW_US}").expect("BUG: memory");
        }
        self.tables.fill(&all)
    }

    /// Whether it is time to forget; only one at a time does.
    pub(crate) fn prune_turn(&self) -> String {
        self.tables.fill(&format!(
            "UPDATE {{meta}} SET pruned_us = {NOW_US} WHERE pruned_us < {NOW_US} - 3600000000; \
             SELECT ROW_COUNT(), {NOW_US}"
        ))
    }

    /// Forgets what is over, and what nobody used for a day where the clock alone mints a higher token. A minute less than
    /// the clock: a step may have read it before it waited.
    pub(crate) fn prune(&self, now_us: i64) -> [String; 5] {
        let (before, clock) = (now_us - 86_400_000_000, (now_us / 1000 - 1_735_689_600_000 - 60_000) * 1024);
        [
            self.tables.fill(&format!("DELETE FROM {{holders}} WHERE until_us <= {now_us}")),
            self.tables.fill(&format!("DELETE FROM {{waiters}} WHERE until_us <= {now_us}")),
            self.tables.fill(&format!("DELETE FROM {{revoked}} WHERE at_us <= {before}")),
            self.tables.fill(&format!("DELETE FROM {{records}} WHERE token > 0 AND until <= {clock}")),
            self.tables.fill(&format!(
                "DELETE FROM {{locks}} WHERE used_us <= {before} AND newest_token < {clock} \
                 AND (owner IS NULL OR until_us <= {now_us}) \
                 AND NOT EXISTS (SELECT 1 FROM {{holders}} AS held WHERE held.name = {{locks}}.name) \
                 AND NOT EXISTS (SELECT 1 FROM {{waiters}} AS queued WHERE queued.name = {{locks}}.name)"
            )),
        ]
    }

    /// The record beside a lock, and the clock.
    pub(crate) fn record(&self, name: &LockName) -> String {
        let name = bytes(name.as_str());
        self.tables.fill(&format!(
            "SELECT token, until, value, value_until FROM {{records}} WHERE name = {name}; {SELECT_NOW}"
        ))
    }

    /// The same in a transaction that has its row.
    pub(crate) fn lock_record(&self, name: &LockName) -> String {
        let name = bytes(name.as_str());
        self.tables.fill(&format!(
            "START TRANSACTION; INSERT INTO {{records}} (name, token, until, value_until) VALUES ({name}, 0, 0, 0) \
             ON DUPLICATE KEY UPDATE token = token; \
             SELECT token, until, value, value_until FROM {{records}} WHERE name = {name} FOR UPDATE; {SELECT_NOW}"
        ))
    }

    pub(crate) fn put_record(&self, name: &LockName, kept: &Kept) -> String {
        let (name, value) = (bytes(name.as_str()), kept.value.as_ref().map_or("NULL".to_owned(), bytes));
        let (token, until, value_until) = (kept.token, kept.until, kept.value_until);
        self.tables.fill(&format!(
            "UPDATE {{records}} SET token = {token}, until = {until}, value = {value}, value_until = {value_until} \
             WHERE name = {name}; COMMIT"
        ))
    }

    /// Fails where the tables are of version 1.
    pub(crate) fn newest(&self) -> String {
        self.tables.fill("SELECT newest_token FROM {locks} LIMIT 0")
    }

    pub(crate) fn set_version(&self) -> String {
        self.tables.fill("UPDATE {meta} SET version = 2")
    }

    /// The table of locks, as it stands in statements.
    pub(crate) fn locks(&self) -> String {
        self.tables.fill("{locks}")
    }

    /// How the table of locks was made.
    pub(crate) fn making(&self) -> String {
        self.tables.fill("SHOW CREATE TABLE {locks}")
    }

    pub(crate) fn version(&self) -> String {
        self.tables.fill("SELECT version FROM {meta}")
    }
}

/// What is said of a grant, column by column.
fn grant(held: &Held) -> [(&'static str, String); 11] {
    let asked = held.asked.as_ref();
    let number = asked.map_or_else(|| "NULL".to_owned(), |asked| asked.number().cast_signed().to_string());
    let actor = held.actor.map(|actor| actor.to_string());
    [
        ("owner", text(&held.owner.expose())),
        ("token", held.token.as_i64().to_string()),
        ("shared", shared(held.mode).to_string()),
        ("label", text(&held.label)),
        ("since_us", micros(held.since).to_string()),
        ("until_us", micros(held.until).to_string()),
        ("attempt", held.attempt.to_string()),
        ("actor", maybe(actor.as_deref())),
        ("ask_number", number),
        ("ask_by", maybe(asked.map(|asked| asked.by.as_str()))),
        ("ask_note", maybe(asked.map(|asked| asked.note.as_str()))),
    ]
}

fn put_holder(key: &str, held: &Held) -> String {
    let grant = grant(held);
    let (columns, values) =
        (grant.each_ref().map(|(column, _)| *column), grant.each_ref().map(|(_, value)| value.as_str()));
    format!("REPLACE INTO {{holders}} (name, {}) VALUES ({key}, {})", columns.join(", "), values.join(", "))
}

fn put_lock(key: &str, row: &LockRow, changes: &Changes) -> String {
    let seat = match &row.seat {
        Some(held) => grant(held).map(|(column, value)| format!("{column} = {value}")).join(", "),
        None => {
            "owner = NULL, label = NULL, actor = NULL, ask_number = NULL, ask_by = NULL, ask_note = NULL".to_owned()
        }
    };
    let last = changes.last.map_or(0, FencingToken::as_i64);
    format!(
        "UPDATE {{locks}} SET {seat}, used_us = {}, newest_token = GREATEST(newest_token, {last}), busy = {}, \
         late_until_us = {} WHERE name = {key}",
        changes.now_us,
        u8::from(row.busy),
        row.late_until_us,
    )
}

fn put_waiter(key: &str, queued: &Queued, inbox: Option<&str>) -> String {
    let actor = queued.actor.map(|actor| actor.to_string());
    format!(
        "REPLACE INTO {{waiters}} (name, owner, ticket, shared, label, since_us, until_us, kept_us, attempt, actor, \
         inbox) VALUES ({key}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})",
        text(&queued.owner.expose()),
        queued.ticket.as_i64(),
        shared(queued.mode),
        text(&queued.label),
        micros(queued.since),
        micros(queued.until),
        i64::try_from(queued.kept_for.as_micros()).unwrap_or(i64::MAX),
        queued.attempt,
        maybe(actor.as_deref()),
        maybe(inbox),
    )
}

fn shared(mode: Mode) -> u8 {
    u8::from(mode == Mode::Shared)
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_nanos() / 1000).unwrap_or(i64::MAX)
}
