SELECT ticket FROM waiters WHERE name = :name ORDER BY ticket DESC LIMIT 1
