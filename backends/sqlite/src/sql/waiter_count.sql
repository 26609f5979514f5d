SELECT count(*) FROM waiters WHERE name = :name
