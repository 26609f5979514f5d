INSERT INTO {locks} AS held (name, newest_token, used_us, busy, late_until_us, owner, token, shared, label, since_us, until_us,
    attempt, actor)
SELECT $1, clock.token, clock.us, false, 0, $2, clock.token, $3::bool, $4, clock.us, clock.us + $5, $6::int8, $7
FROM (SELECT us, greatest(1, (us - 1735689600000000) * 1024 / 1000) AS token
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS us) AS read) AS clock
WHERE clock.us < $8
ON CONFLICT (name) DO UPDATE SET
    newest_token = greatest(held.newest_token + 1, excluded.token), token = greatest(held.newest_token + 1, excluded.token),
    used_us = excluded.used_us, owner = excluded.owner, shared = excluded.shared, label = excluded.label,
    since_us = excluded.since_us, until_us = excluded.until_us, attempt = excluded.attempt, actor = excluded.actor,
    ask_number = NULL, ask_by = NULL, ask_note = NULL
WHERE NOT held.busy AND held.late_until_us <= excluded.used_us AND held.newest_token < 9007199254740991
    AND (held.owner IS NULL OR held.until_us <= excluded.used_us)
RETURNING token
