SELECT DISTINCT name FROM waiters WHERE name >= :prefix AND name > :after ORDER BY name LIMIT :limit
