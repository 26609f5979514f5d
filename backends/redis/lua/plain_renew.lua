-- Keeps a plain lock for one more ttl, if it is still the owner's. KEYS: 1 lock, 2 asked; of a node that may lose its trust
-- also 3 marker. ARGV: 1 owner, 2 ttl, 3 whether the node may lose its trust: 1 or 0.
-- Replies: 1 kept, {1, request} kept and asked to let go, 0 not the owner's, -1 not trusted: what it has it prolongs, but it
-- vouches for nothing.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[3] == '1' and redis.call('PTTL', KEYS[3]) < 0 then return -1 end
local asked = redis.call('GET', KEYS[2])
if not asked then return 1 end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
-- Before the first `|` would be a token.
return {1, string.sub(asked, 2)}
