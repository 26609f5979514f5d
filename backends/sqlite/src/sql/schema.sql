-- Version 4. Moments are nanoseconds of the machine's boot clock and mean nothing under another boot id.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    boot_id TEXT NOT NULL,
    pruned_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE locks (
    name TEXT PRIMARY KEY,
    last_token INTEGER NOT NULL,
    used_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holders (
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    token INTEGER NOT NULL,
    shared INTEGER NOT NULL,
    label TEXT NOT NULL,
    since_ns INTEGER NOT NULL,
    until_ns INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    -- On whose behalf, for finding deadlocks.
    actor TEXT,
    -- Who asked them to let go.
    ask_number INTEGER,
    ask_by TEXT,
    ask_note TEXT,
    PRIMARY KEY (name, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE waiters (
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    ticket INTEGER NOT NULL,
    shared INTEGER NOT NULL,
    label TEXT NOT NULL,
    since_ns INTEGER NOT NULL,
    until_ns INTEGER NOT NULL,
    -- How long a grant is kept that is handed over to it.
    lease_ns INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    -- The socket in the wake folder where its process listens; none if that process polls.
    inbox TEXT,
    actor TEXT,
    PRIMARY KEY (name, owner)
) STRICT, WITHOUT ROWID;

CREATE INDEX waiters_in_line ON waiters (name, ticket, owner);

CREATE TABLE revoked (
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    at_ns INTEGER NOT NULL,
    PRIMARY KEY (name, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE records (
    name TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    -- The token is remembered until then, and the value until then: both by the calendar, in the format of tokens.
    until INTEGER NOT NULL,
    value BLOB,
    value_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
