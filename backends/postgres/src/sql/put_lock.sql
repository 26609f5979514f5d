UPDATE {locks} SET owner = $2, token = $3, shared = $4, label = $5, since_us = $6, until_us = $7, attempt = $8, actor = $9,
    ask_number = $10, ask_by = $11, ask_note = $12, used_us = $13, newest_token = greatest(newest_token, $14), busy = $15,
    late_until_us = $16
WHERE name = $1
