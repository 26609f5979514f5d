SELECT owner, token, shared, label, since_ns, until_ns, attempt, actor, ask_number, ask_by, ask_note FROM holders WHERE name = :name ORDER BY token
