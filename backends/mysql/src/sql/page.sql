SELECT 0 AS kind, NULL AS owner, COALESCE((SELECT last_token FROM {locks} WHERE name = :name), 0) AS number,
    0 AS shared, '' AS label, :now_us AS since_us, 0 AS until_us, 0 AS kept_us, 0 AS attempt, NULL AS actor,
    NULL AS ask_number, NULL AS ask_by, NULL AS ask_note, NULL AS inbox
UNION ALL
SELECT 1, owner, token, shared, label, since_us, until_us, 0, attempt, actor, ask_number, ask_by, ask_note, NULL
FROM {holders} WHERE name = :name
UNION ALL
(SELECT 2, owner, ticket, shared, label, since_us, until_us, kept_us, attempt, actor, NULL, NULL, NULL, inbox
FROM {waiters} WHERE name = :name ORDER BY ticket, owner LIMIT :line)
UNION ALL
SELECT 3, owner, ticket, shared, label, since_us, until_us, kept_us, attempt, actor, NULL, NULL, NULL, inbox
FROM {waiters} WHERE name = :name AND owner IN (:owners)
UNION ALL
SELECT 4, owner, 0, 0, '', 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL
FROM {revoked} WHERE name = :name AND owner IN (:owners)
UNION ALL
SELECT 5, NULL, (SELECT COUNT(*) FROM (SELECT 1 FROM {waiters} WHERE name = :name LIMIT :count) AS places), 0, '',
    0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL
