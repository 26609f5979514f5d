INSERT INTO {holders} (name, owner, token, shared, label, since_us, until_us, attempt, actor, ask_number, ask_by, ask_note)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (name, owner) DO UPDATE SET token = $3, shared = $4, label = $5, since_us = $6, until_us = $7,
    attempt = $8, actor = $9, ask_number = $10, ask_by = $11, ask_note = $12
