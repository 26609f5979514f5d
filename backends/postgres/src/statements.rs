//! The statements, with the names of the tables in them.

use fencepost_sql::Tables;

/// Begins a step. Whoever is stopped in the middle of one does not keep its row locked for long.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '10s'; \
     SET LOCAL idle_in_transaction_session_timeout = '2s'";
/// A name for what every session of a database may know: only one migrates at a time.
pub(crate) const MIGRATION: &str = "SELECT pg_advisory_xact_lock(7378696629483820646)";
pub(crate) const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// The clock, as a statement of its own: read once the row is locked, and not when the statement that locks it began.
pub(crate) const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";
/// What sessions of our own are told once, and steps of one statement go by; a transaction says it for itself.
pub(crate) const SESSION: &str = "SET lock_timeout = '10s'; SET default_transaction_isolation = 'read committed'; \
     SET default_transaction_read_only = off";
/// The row of a lock: about itself, then its grant with the same columns as other grants.
const LOCK: &str = "SELECT newest_token, busy, late_until_us, owner, token, shared, label, since_us, until_us, 0::int8, \
     attempt, actor, ask_number, ask_by, ask_note, NULL::text FROM {locks} WHERE name = $1";
/// Places in line, with the same columns as grants.
const PLACES: &str = "SELECT owner, ticket, shared, label, since_us, until_us, kept_us, attempt, actor, NULL::int8, \
     NULL::text, NULL::text, inbox FROM {waiters} WHERE name = $1";

const RECORD: &str = "SELECT token, until, value, value_until FROM {records} WHERE name = $1";

/// One per table layout.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) check: String,
    pub(crate) take: String,
    pub(crate) free: String,
    pub(crate) lock: String,
    pub(crate) last: String,
    pub(crate) make: String,
    pub(crate) holders: String,
    pub(crate) line: String,
    pub(crate) places: String,
    pub(crate) count: String,
    pub(crate) revoked: String,
    pub(crate) put_holder: String,
    pub(crate) drop_holders: String,
    pub(crate) put_waiter: String,
    pub(crate) drop_waiters: String,
    pub(crate) revoke: String,
    pub(crate) put_lock: String,
    pub(crate) record: String,
    pub(crate) lock_record: String,
    pub(crate) make_record: String,
    pub(crate) put_record: String,
    pub(crate) names: String,
    pub(crate) names_waited_for: String,
    pub(crate) grants: String,
    pub(crate) prune: String,
    pub(crate) version: String,
    pub(crate) schema: String,
    pub(crate) from_1: String,
}

impl Statements {
    pub(crate) fn new(tables: &Tables) -> Self {
        let fill = |text: &str| tables.fill(text);
        let names = |table: &str, distinct: &str| {
            fill(&format!(
                "SELECT {distinct} name FROM {{{table}}} WHERE name >= $1 AND name > $2 ORDER BY name LIMIT $3"
            ))
        };
        Self {
            check: fill("SELECT version, (extract(epoch FROM clock_timestamp()) * 1000000)::int8 FROM {meta}"),
            take: fill(include_str!("sql/take.sql")),
            free: fill(include_str!("sql/free.sql")),
            lock: fill(&format!("{LOCK} FOR UPDATE")),
            last: fill(LOCK),
            make: fill(
                "INSERT INTO {locks} (name, newest_token, used_us, busy) VALUES ($1, 0, $2, false) \
                 ON CONFLICT (name) DO NOTHING",
            ),
            holders: fill(
                "SELECT owner, token, shared, label, since_us, until_us, 0::int8, attempt, actor, ask_number, ask_by, \
                 ask_note, NULL::text FROM {holders} WHERE name = $1",
            ),
            line: fill(&format!("{PLACES} ORDER BY ticket, owner LIMIT $2")),
            places: fill(&format!("{PLACES} AND owner = ANY ($2)")),
            count: fill(
                "SELECT count(*), coalesce((SELECT max(ticket) FROM {waiters} WHERE name = $1), 0) \
                 FROM (SELECT 1 FROM {waiters} WHERE name = $1 LIMIT 20000) AS places",
            ),
            revoked: fill("SELECT owner FROM {revoked} WHERE name = $1 AND owner = $2"),
            put_holder: fill(include_str!("sql/put_holder.sql")),
            drop_holders: fill("DELETE FROM {holders} WHERE name = $1 AND owner = ANY ($2)"),
            put_waiter: fill(include_str!("sql/put_waiter.sql")),
            drop_waiters: fill("DELETE FROM {waiters} WHERE name = $1 AND owner = ANY ($2)"),
            revoke: fill(
                "INSERT INTO {revoked} (name, owner, at_us) SELECT $1, owner, $3 FROM unnest($2::text[]) AS owner \
                 ON CONFLICT (name, owner) DO UPDATE SET at_us = $3",
            ),
            put_lock: fill(include_str!("sql/put_lock.sql")),
            record: fill(RECORD),
            lock_record: fill(&format!("{RECORD} FOR UPDATE")),
            make_record: fill(
                "INSERT INTO {records} AS kept (name, token, until, value_until) VALUES ($1, 0, 0, 0) \
                 ON CONFLICT (name) DO UPDATE SET token = kept.token",
            ),
            put_record: fill(
                "UPDATE {records} SET token = $2, until = $3, value = $4, value_until = $5 WHERE name = $1",
            ),
            names: names("locks", ""),
            names_waited_for: names("waiters", "DISTINCT"),
            grants: fill(
                "WITH wanted AS (SELECT * FROM unnest($1::text[], $2::text[]) AS wanted (name, owner)) \
                 SELECT owner, token, attempt FROM ( \
                     SELECT owner, token, attempt, until_us FROM wanted JOIN {locks} USING (name, owner) UNION ALL \
                     SELECT owner, token, attempt, until_us FROM wanted JOIN {holders} USING (name, owner)) AS held \
                 WHERE until_us > (extract(epoch FROM clock_timestamp()) * 1000000)::int8",
            ),
            prune: fill(include_str!("sql/prune.sql")),
            version: fill("SELECT version FROM {meta}"),
            schema: fill(include_str!("sql/schema.sql")),
            from_1: fill(include_str!("sql/from_1.sql")),
        }
    }
}
