INSERT OR REPLACE INTO waiters (name, owner, ticket, shared, label, since_ns, until_ns, lease_ns, attempt, inbox, actor)
VALUES (:name, :owner, :ticket, :shared, :label, :since_ns, :until_ns, :lease_ns, :attempt, :inbox, :actor)
