-- Version 1. Moments are nanoseconds of the machine's boot clock and mean nothing under another boot id.
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
    lease_ns INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    -- The socket in the wake folder where its process listens; none if that process polls.
    inbox TEXT,
    PRIMARY KEY (name, owner)
) STRICT, WITHOUT ROWID;

CREATE INDEX waiters_in_line ON waiters (name, ticket, owner);

CREATE TABLE revoked (
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    at_ns INTEGER NOT NULL,
    PRIMARY KEY (name, owner)
) STRICT, WITHOUT ROWID;
