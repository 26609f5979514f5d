SELECT last_token FROM locks WHERE name = :name
