-- Records beside locks.
CREATE TABLE records (
    name TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    -- The token is remembered until then, and the value until then: both by the calendar, in the format of tokens.
    until INTEGER NOT NULL,
    value BLOB,
    value_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
