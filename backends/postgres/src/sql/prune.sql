-- One of those who come by does it, once an hour, and waits for nobody.
DO $prune$
DECLARE
    now_us int8 := (extract(epoch FROM clock_timestamp()) * 1000000)::int8;
    -- Tokens count 1024 per millisecond from 2025-01-01 on. A minute less: a step may have read the clock before it waited.
    clock int8 := (now_us / 1000 - 1735689600000 - 60000) * 1024;
    day_us int8 := 86400000000;
BEGIN
    PERFORM 1 FROM {meta} WHERE pruned_us < now_us - 3600000000 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE {meta} SET pruned_us = now_us;
    DELETE FROM {holders} WHERE (name, owner) IN
        (SELECT name, owner FROM {holders} WHERE until_us <= now_us FOR UPDATE SKIP LOCKED);
    DELETE FROM {waiters} WHERE (name, owner) IN
        (SELECT name, owner FROM {waiters} WHERE until_us <= now_us FOR UPDATE SKIP LOCKED);
    DELETE FROM {revoked} WHERE at_us <= now_us - day_us;
    DELETE FROM {locks} WHERE name IN
        (SELECT name FROM {locks} AS old WHERE used_us <= now_us - day_us AND newest_token < clock
            AND (owner IS NULL OR until_us <= now_us)
            AND NOT EXISTS (SELECT 1 FROM {holders} AS held WHERE held.name = old.name AND held.until_us > now_us)
            AND NOT EXISTS (SELECT 1 FROM {waiters} AS queued WHERE queued.name = old.name AND queued.until_us > now_us)
            FOR UPDATE SKIP LOCKED);
    DELETE FROM {records} WHERE name IN
        (SELECT name FROM {records} WHERE token > 0 AND until <= clock FOR UPDATE SKIP LOCKED);
END
$prune$
