UPDATE locks SET used_at_ms = :now_ms WHERE name = :name
