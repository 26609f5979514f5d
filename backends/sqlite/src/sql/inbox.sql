SELECT inbox FROM waiters WHERE name = :name AND owner = :owner
