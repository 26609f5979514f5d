-- How long the lease of a lock still runs, in ms; 0: none does. KEYS: 1 lock, 2 its readers.
local left = redis.call('PTTL', KEYS[1])
if left <= 0 then return 0 end
if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= '~' then return left end
-- The key of readers lasts as long as the longest lease that any of them had, also of one that is gone.
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000) - 1735689600000
return last[2] and math.max(0, tonumber(last[2]) - now_ms) or 0
