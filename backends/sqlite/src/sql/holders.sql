SELECT owner, token, shared, label, since_ns, until_ns, attempt, actor FROM holders WHERE name = :name ORDER BY token
