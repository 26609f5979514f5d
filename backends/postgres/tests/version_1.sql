-- Fencepost, version 1. Times are microseconds since 1970, by the clock of this database.
CREATE TABLE {meta} (
    one int8 PRIMARY KEY CHECK (one = 1),
    version int8 NOT NULL,
    pruned_us int8 NOT NULL
);

-- A step locks the row of its lock, so that one step at a time works on it.
CREATE TABLE {locks} (
    name text COLLATE "C" PRIMARY KEY,
    -- 0: none yet. Never lowered; a row is forgotten only when the clock alone mints a higher token.
    last_token int8 NOT NULL,
    used_us int8 NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE {holders} (
    name text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    token int8 NOT NULL,
    shared boolean NOT NULL,
    label text NOT NULL,
    since_us int8 NOT NULL,
    until_us int8 NOT NULL,
    attempt int8 NOT NULL,
    -- On whose behalf, for finding deadlocks.
    actor text,
    -- Who asked them to let go.
    ask_number int8,
    ask_by text,
    ask_note text,
    PRIMARY KEY (name, owner)
) WITH (fillfactor = 70);

CREATE TABLE {waiters} (
    name text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    ticket int8 NOT NULL,
    shared boolean NOT NULL,
    label text NOT NULL,
    since_us int8 NOT NULL,
    until_us int8 NOT NULL,
    -- How long a grant is kept that is handed over to it.
    kept_us int8 NOT NULL,
    attempt int8 NOT NULL,
    actor text,
    -- The channel on which its process listens, and its number there.
    inbox text,
    PRIMARY KEY (name, owner)
) WITH (fillfactor = 70);

CREATE INDEX ON {waiters} (name, ticket, owner);

CREATE TABLE {revoked} (
    name text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    at_us int8 NOT NULL,
    PRIMARY KEY (name, owner)
);

INSERT INTO {meta} (one, version, pruned_us) VALUES (1, 1, 0);
