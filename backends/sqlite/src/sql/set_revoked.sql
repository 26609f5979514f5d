INSERT OR REPLACE INTO revoked (name, owner, at_ns) VALUES (:name, :owner, :now_ns)
