SELECT 1 FROM revoked WHERE name = :name AND owner = :owner
