-- Asks again for a plain lock: finds one's own, or sets it. KEYS: 1 lock. ARGV: 1 owner, 2 ttl.
-- Replies: 1 granted, 0 held.
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if value then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
