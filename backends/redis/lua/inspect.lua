-- What the node knows of a lock; changes nothing. KEYS: 1 lock, 2 fence, 3 marker.
-- Replies: {now, last, holders: value (a reader's after a ~) and PTTL in turn, waiters in order, each
-- after its ticket}.
local left = redis.call('PTTL', KEYS[3])
local now_ms = left >= 0 and 8796093022208 - left or 0
local kind = redis.call('TYPE', KEYS[1]).ok
local holders, waiters = {}, {}
local tag = string.sub(KEYS[2], 10)
local line, readers_key = 'fp:line:' .. tag, 'fp:readers:' .. tag
if kind == 'string' then
  local value = redis.call('GET', KEYS[1])
  if value == '~' then
    local found = redis.call('ZRANGEBYSCORE', readers_key, '(' .. string.format('%.0f', now_ms), '+inf', 'WITHSCORES')
    for at = 1, #found, 2 do
      holders[at] = '~' .. found[at]
      holders[at + 1] = tonumber(found[at + 1]) - now_ms
    end
  else
    holders = {value, redis.call('PTTL', KEYS[1])}
  end
elseif kind ~= 'none' then
  holders = {'?' .. kind, redis.call('PTTL', KEYS[1])}
end
local places = redis.call('ZRANGE', line, 0, 9999, 'WITHSCORES')
for at = 1, #places, 2 do
  local waiter = redis.call('GET', line .. ':' .. places[at])
  if waiter then
    waiters[#waiters + 1] = string.format('%.0f', tonumber(places[at + 1]))
    waiters[#waiters + 1] = waiter
  end
end
local last = string.match(redis.call('GET', KEYS[2]) or '0', '^%d+')
return {string.format('%.0f', now_ms), last, holders, waiters}
