-- Keeps a plain lock for one more ttl, if it is still the owner's. KEYS: 1 lock, 2 asked. ARGV: 1 owner, 2 ttl.
-- Replies: 1 kept, {1, request} kept and asked to let go, 0 not the owner's.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local asked = redis.call('GET', KEYS[2])
if not asked then return 1 end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
-- Before the first `|` would be a token.
return {1, string.sub(asked, 2)}
