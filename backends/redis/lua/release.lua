-- The end of a claim: frees what it holds, leaves the line, raises the fence, hands over.
-- KEYS: 1 lock, 2 fence, 3 marker, 4 line, 5 readers. ARGV: 1 owner, 2 raise or '', 3 pass.
-- Replies: 1 it was the owner's, 0 it was not.
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, 40) == ARGV[1] and redis.call('EXISTS', KEYS[4]) == 0 then
  redis.call('DEL', KEYS[1])
  local raise, own = tonumber(ARGV[2]), tonumber(string.match(value, '^[^|]*|(%d+)'))
  -- The fence is at the grant's own token at least; only a higher one has to be raised.
  if not raise or raise <= own then return 1 end
  local left = redis.call('PTTL', KEYS[3])
  local now, last = (8796093022208 - left) * 1024, tonumber(redis.call('GET', KEYS[2]) or 0)
  if left >= 0 and raise > last and (raise <= now + 10240000 or raise <= last + 16) then
    redis.call('SET', KEYS[2], ARGV[2], 'PX', 86400000)
  end
  return 1
end
local left = redis.call('PTTL', KEYS[3])
-- A node that is not trusted hands nothing over and remembers nothing, but lets go of what it has.
if left < 0 then
  if value and string.sub(value, 1, 40) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0
end
--[[PRELUDE]]
local own = mine(ARGV[1])
if own then drop(own) end
leave_line(ARGV[1])
raise(tonumber(ARGV[2]))
hand_over(ARGV[3])
return own and 1 or 0
