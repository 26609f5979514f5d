-- Everything that a step needs of one lock, in one answer. The row of the lock is locked by a statement before this one:
-- so the clock is read, and the rows are, once nobody else works on them.
SELECT 0::int8 AS kind, NULL::text AS owner,
    coalesce((SELECT last_token FROM {locks} WHERE name = $1), 0) AS number, false AS shared, ''::text AS label,
    (extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS since_us, 0::int8 AS until_us, 0::int8 AS kept_us,
    0::int8 AS attempt, NULL::text AS actor, NULL::int8 AS ask_number, NULL::text AS ask_by, NULL::text AS ask_note,
    NULL::text AS inbox
UNION ALL
SELECT 1, owner, token, shared, label, since_us, until_us, 0, attempt, actor, ask_number, ask_by, ask_note, NULL
FROM {holders} WHERE name = $1
UNION ALL
(SELECT 2, owner, ticket, shared, label, since_us, until_us, kept_us, attempt, actor, NULL, NULL, NULL, inbox
FROM {waiters} WHERE name = $1 ORDER BY ticket, owner LIMIT $2)
UNION ALL
SELECT 3, owner, ticket, shared, label, since_us, until_us, kept_us, attempt, actor, NULL, NULL, NULL, inbox
FROM {waiters} WHERE name = $1 AND owner = ANY ($3)
UNION ALL
SELECT 4, owner, 0, false, '', 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL
FROM {revoked} WHERE name = $1 AND owner = ANY ($3)
UNION ALL
SELECT 5, NULL, (SELECT count(*) FROM (SELECT 1 FROM {waiters} WHERE name = $1 LIMIT $4) AS places), false, '',
    0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL
