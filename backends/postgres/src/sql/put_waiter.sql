INSERT INTO {waiters} (name, owner, ticket, shared, label, since_us, until_us, kept_us, attempt, actor, inbox)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (name, owner) DO UPDATE SET ticket = $3, shared = $4, label = $5, since_us = $6, until_us = $7,
    kept_us = $8, attempt = $9, actor = $10, inbox = $11
