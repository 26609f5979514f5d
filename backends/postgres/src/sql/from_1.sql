-- From version 1: programs of that version know no newest_token, and stop rather than overlook a grant in this row.
-- First, as those who prune do it: two that wait for each other would fail.
UPDATE {meta} SET version = 2;
ALTER TABLE {locks} RENAME COLUMN last_token TO newest_token;
ALTER TABLE {locks}
    -- What is there may have rows in the other tables.
    ADD COLUMN busy boolean NOT NULL DEFAULT true,
    ADD COLUMN late_until_us int8 NOT NULL DEFAULT 0,
    ADD COLUMN owner text COLLATE "C",
    ADD COLUMN token int8,
    ADD COLUMN shared boolean,
    ADD COLUMN label text,
    ADD COLUMN since_us int8,
    ADD COLUMN until_us int8,
    ADD COLUMN attempt int8,
    ADD COLUMN actor text,
    ADD COLUMN ask_number int8,
    ADD COLUMN ask_by text,
    ADD COLUMN ask_note text;
-- What is kept beside locks. Its row is locked by whoever writes it. Times are tokens, by the clock of this database.
CREATE TABLE {records} (
    name text COLLATE "C" PRIMARY KEY,
    -- The newest token seen, and until when it is remembered; 0: none yet.
    token int8 NOT NULL,
    until int8 NOT NULL,
    value bytea,
    value_until int8 NOT NULL
);

