INSERT INTO locks (name, last_token, used_at_ms) VALUES (:name, :last, :now_ms)
ON CONFLICT (name) DO UPDATE SET last_token = excluded.last_token, used_at_ms = excluded.used_at_ms
