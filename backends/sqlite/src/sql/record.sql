SELECT token, until, value, value_until FROM records WHERE name = :name
