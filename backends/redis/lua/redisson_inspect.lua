-- What the node knows of a lock; changes nothing. KEYS: 1 lock, 2 fence, 3 marker.
-- Replies: those of inspect.lua; who waits is not known.
local left = redis.call('PTTL', KEYS[3])
--[[REDISSON]]
local held = holder()
local now_ms = left >= 0 and 8796093022208 - left or 0
return {digits(now_ms), digits(last), held and {held, call('PTTL', KEYS[1])} or {}, {}}
