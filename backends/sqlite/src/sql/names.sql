SELECT name FROM locks WHERE name >= :prefix AND name > :after ORDER BY name LIMIT :limit
