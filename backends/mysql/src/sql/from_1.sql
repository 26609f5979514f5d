-- What is kept beside locks. Its row is locked by whoever writes it. Times are tokens, by the clock of this database.
CREATE TABLE IF NOT EXISTS {records} (
    name VARBINARY(255) PRIMARY KEY,
    -- The newest token seen, and until when it is remembered; 0: none yet.
    token BIGINT NOT NULL,
    until BIGINT NOT NULL,
    value MEDIUMBLOB,
    value_until BIGINT NOT NULL
) ENGINE = InnoDB;

-- From version 1: programs of that version know no newest_token, and stop rather than overlook a grant in this row.
ALTER TABLE {locks}
    CHANGE COLUMN last_token newest_token BIGINT NOT NULL,
    -- What is there may have rows in the other tables.
    ADD COLUMN busy TINYINT NOT NULL DEFAULT 1,
    ADD COLUMN late_until_us BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN owner CHAR(40) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN token BIGINT,
    ADD COLUMN shared TINYINT,
    ADD COLUMN label VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    ADD COLUMN since_us BIGINT,
    ADD COLUMN until_us BIGINT,
    ADD COLUMN attempt BIGINT,
    ADD COLUMN actor VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN ask_number BIGINT,
    ADD COLUMN ask_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    ADD COLUMN ask_note VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
