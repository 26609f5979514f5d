-- Keeps a plain lock for one more ttl, if it is still the owner's. KEYS: 1 lock. ARGV: 1 owner, 2 ttl.
-- Replies: 1 kept, 0 not the owner's.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
