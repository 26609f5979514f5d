INSERT OR REPLACE INTO holders (name, owner, token, shared, label, since_ns, until_ns, attempt, actor)
VALUES (:name, :owner, :token, :shared, :label, :since_ns, :until_ns, :attempt, :actor)
