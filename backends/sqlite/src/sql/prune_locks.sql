-- Only where the clock alone mints a higher token.
DELETE FROM locks
WHERE used_at_ms <= :before_ms AND last_token < :clock
    AND NOT EXISTS (SELECT 1 FROM holders WHERE holders.name = locks.name)
    AND NOT EXISTS (SELECT 1 FROM waiters WHERE waiters.name = locks.name)
