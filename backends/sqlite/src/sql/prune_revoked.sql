DELETE FROM revoked WHERE at_ns <= :before_ns
