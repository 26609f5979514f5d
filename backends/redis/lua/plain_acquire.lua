-- Asks for a plain lock: finds one's own, or sets it. KEYS: 1 lock; of a node that may lose its trust also 2 fence, which is
-- left alone, and 3 marker. ARGV: 1 owner, 2 ttl, 3 whether the node may lose its trust: 1 or 0.
-- Replies: 1 granted, 0 held, -1 not trusted.
if ARGV[3] == '1' and redis.call('PTTL', KEYS[3]) < 0 then return -1 end
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if value then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
