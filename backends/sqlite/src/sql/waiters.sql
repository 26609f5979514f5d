SELECT owner, ticket, shared, label, since_ns, until_ns, lease_ns, attempt, actor FROM waiters
WHERE name = :name ORDER BY ticket, owner LIMIT :limit
