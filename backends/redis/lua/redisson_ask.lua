-- Asks the holder to let go, if it is one of ours: no other can hear. KEYS: 1 lock, 2 fence, 3 marker.
-- ARGV: 1 start of the keys that keep requests, 2 the request.
-- Replies: who was asked, followed by the PTTL; -1 not trusted; an error that names a holder who cannot hear.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
--[[REDISSON]]
local held = lock_holder()
if not held then return {} end
if not is_ours(held) then return redis.error_reply('DEAF ' .. string.sub(held, 3)) end
local rest = call('PTTL', KEYS[1])
if rest > 0 then call('SET', ARGV[1] .. owner_of(held), token_of(held) .. '|' .. ARGV[2], 'PX', rest) end
return {held, rest}
