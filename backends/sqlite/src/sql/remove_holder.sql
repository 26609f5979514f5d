DELETE FROM holders WHERE name = :name AND owner = :owner
