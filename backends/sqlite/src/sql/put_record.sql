INSERT INTO records (name, token, until, value, value_until) VALUES (:name, :token, :until, :value, :value_until)
ON CONFLICT (name) DO UPDATE
SET token = excluded.token, until = excluded.until, value = excluded.value, value_until = excluded.value_until
