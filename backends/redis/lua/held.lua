-- How long the lease of a lock still runs, in ms; 0: none does; -1: for ever. KEYS: 1 lock, 2 its readers, 3 its fence.
-- ARGV: 1 `ours` if other keys than Fencepost's own are no locks.
local left = redis.call('PTTL', KEYS[1])
if left == -2 then return 0 end
local value = redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1])
if value ~= '~' then
  -- A value that begins with an owner is ours also when the fence is gone, which lasts a day.
  local is_ours = value and string.find(value, '^' .. string.rep('[0-9a-f]', 40) .. '[|!]')
  if ARGV[1] == 'ours' and not is_ours and redis.call('EXISTS', KEYS[3]) == 0 then return 0 end
  return left
end
-- The key of readers lasts as long as the longest lease that any of them had, also of one that is gone.
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000) - 1735689600000
return last[2] and math.max(0, tonumber(last[2]) - now_ms) or 0
