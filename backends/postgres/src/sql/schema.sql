-- Fencepost, version 2. Times are microseconds since 1970, by the clock of this database.
CREATE TABLE {meta} (
    one int8 PRIMARY KEY CHECK (one = 1),
    version int8 NOT NULL,
    pruned_us int8 NOT NULL
);

-- A step locks the row of its lock, so that one step at a time works on it.
CREATE TABLE {locks} (
    name text COLLATE "C" PRIMARY KEY,
    -- 0: none yet. Never lowered; a row is forgotten only when the clock alone mints a higher token.
    newest_token int8 NOT NULL,
    used_us int8 NOT NULL,
    -- There may be rows of this lock in the other tables: somebody waits, or several hold it.
    busy boolean NOT NULL DEFAULT true,
    -- Until then a request may come that was given up, and no lock is taken in one statement.
    late_until_us int8 NOT NULL DEFAULT 0,
    -- The grant, if there is only one; no owner: none here.
    owner text COLLATE "C",
    token int8,
    shared boolean,
    label text,
    since_us int8,
    until_us int8,
    attempt int8,
    -- On whose behalf, for finding deadlocks.
    actor text,
    -- Who asked them to let go.
    ask_number int8,
    ask_by text,
    ask_note text
) WITH (fillfactor = 70);

-- Grants, where there are several at once.
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

-- What is kept beside locks. Its row is locked by whoever writes it. Times are tokens, by the clock of this database.
CREATE TABLE {records} (
    name text COLLATE "C" PRIMARY KEY,
    -- The newest token seen, and until when it is remembered; 0: none yet.
    token int8 NOT NULL,
    until int8 NOT NULL,
    value bytea,
    value_until int8 NOT NULL
);

INSERT INTO {meta} (one, version, pruned_us) VALUES (1, 2, 0);
