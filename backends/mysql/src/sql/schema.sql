-- Fencepost, version 2. Times are microseconds since 1970, by the clock of this database. Names are bytes: two that
-- differ in case, accents or blanks at the end are two names.
-- A step locks the row of its lock, so that one step at a time works on it.
CREATE TABLE IF NOT EXISTS {locks} (
    name VARBINARY(255) PRIMARY KEY,
    -- 0: none yet. Never lowered; a row is forgotten only when the clock alone mints a higher token.
    newest_token BIGINT NOT NULL,
    used_us BIGINT NOT NULL,
    -- There may be rows of this lock in the other tables: somebody waits, or several hold it.
    busy TINYINT NOT NULL DEFAULT 1,
    -- Until then a request may come that was given up, and no lock is taken in one statement.
    late_until_us BIGINT NOT NULL DEFAULT 0,
    -- The grant, if there is only one; no owner: none here.
    owner CHAR(40) CHARACTER SET ascii COLLATE ascii_bin,
    token BIGINT,
    shared TINYINT,
    label VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    since_us BIGINT,
    until_us BIGINT,
    attempt BIGINT,
    -- On whose behalf, for finding deadlocks.
    actor VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin,
    -- Who asked them to let go.
    ask_number BIGINT,
    ask_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    ask_note VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
) ENGINE = InnoDB;

-- Grants, where there are several at once.
CREATE TABLE IF NOT EXISTS {holders} (
    name VARBINARY(255) NOT NULL,
    owner CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    token BIGINT NOT NULL,
    shared TINYINT NOT NULL,
    label VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    since_us BIGINT NOT NULL,
    until_us BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    -- On whose behalf, for finding deadlocks.
    actor VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin,
    -- Who asked them to let go.
    ask_number BIGINT,
    ask_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    ask_note VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    PRIMARY KEY (name, owner)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {waiters} (
    name VARBINARY(255) NOT NULL,
    owner CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ticket BIGINT NOT NULL,
    shared TINYINT NOT NULL,
    label VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    since_us BIGINT NOT NULL,
    until_us BIGINT NOT NULL,
    -- How long a grant is kept that is handed over to it.
    kept_us BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    actor VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin,
    -- The process that it waits in, and its number there.
    inbox VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    PRIMARY KEY (name, owner),
    INDEX in_line (name, ticket, owner)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {revoked} (
    name VARBINARY(255) NOT NULL,
    owner CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    at_us BIGINT NOT NULL,
    PRIMARY KEY (name, owner)
) ENGINE = InnoDB;

-- What is kept beside locks. Its row is locked by whoever writes it. Times are tokens, by the clock of this database.
CREATE TABLE IF NOT EXISTS {records} (
    name VARBINARY(255) PRIMARY KEY,
    -- The newest token seen, and until when it is remembered; 0: none yet.
    token BIGINT NOT NULL,
    until BIGINT NOT NULL,
    value MEDIUMBLOB,
    value_until BIGINT NOT NULL
) ENGINE = InnoDB;

-- Last, because tables are made one by one: whoever finds the version finds all of them.
CREATE TABLE IF NOT EXISTS {meta} (
    one TINYINT PRIMARY KEY,
    version BIGINT NOT NULL,
    pruned_us BIGINT NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO {meta} (one, version, pruned_us) VALUES (1, 2, 0);
