-- Throws out whoever holds it, ours or Redisson's. KEYS: 1 lock, 2 fence, 3 marker.
-- ARGV: 1 the token to raise to, 2 channel, 3 start of the keys that remember who was thrown out.
-- Replies: who was thrown out, followed by the PTTL; -1 not trusted.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
--[[REDISSON]]
local held = lock_holder()
local rest = held and call('PTTL', KEYS[1])
raise_above_evicted(ARGV[1])
if not held then return {} end
if is_ours(held) then call('SET', ARGV[3] .. owner_of(held), '1', 'PX', '86400000') end
call('DEL', KEYS[1], record)
publish(ARGV[2])
return {held, rest}
