INSERT OR REPLACE INTO holders (name, owner, token, shared, label, since_ns, until_ns, attempt, actor,
    ask_number, ask_by, ask_note)
VALUES (:name, :owner, :token, :shared, :label, :since_ns, :until_ns, :attempt, :actor,
    :ask_number, :ask_by, :ask_note)
