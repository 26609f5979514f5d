-- The end of a claim: frees what it holds, leaves the line, raises the fence, hands over; another claim may go with it.
-- KEYS: 1 lock, 2 fence, 3 marker, 4 line, 5 readers. ARGV: 1 owner, 2 raise or '', 3 pass; of the other claim, if there
-- is one: 4 owner, 5 tail, 6 ttl, 7 mode, 8 turn, 9 ticket, 10 lease, 11 inbox, 12 attempt.
-- Replies: 1 it was the owner's, 0 it was not; {that, the reply of acquire.lua} if another claim went with it.
local value = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[3])
local is_mine = value and string.sub(value, 1, 40) == ARGV[1]
-- A node that is not trusted hands nothing over and remembers nothing, but lets go of what it has.
if left < 0 then
  if is_mine then return redis.call('DEL', KEYS[1]) end
  return 0
end
-- The common cases: the lock is the owner's, and nobody of another process waits.
if is_mine and redis.call('EXISTS', KEYS[4]) == 0 then
  local raise, own = tonumber(ARGV[2]), tonumber(string.match(value, '^[^|]*|(%d+)'))
  local now = (8796093022208 - left) * 1024
  if not ARGV[4] then
    redis.call('DEL', KEYS[1])
    -- The fence is at the grant's own token at least; only a higher one has to be raised.
    if not raise or raise <= own then return 1 end
    local last = tonumber(redis.call('GET', KEYS[2]) or 0)
    if raise > last and (raise <= now + 10240000 or raise <= last + 16) then
      redis.call('SET', KEYS[2], ARGV[2], 'PX', 86400000)
    end
    return 1
  end
  local pass, last = tonumber(ARGV[3]), tonumber(redis.call('GET', KEYS[2]) or 0)
  local fits = pass > last and pass > (raise or 0) and pass >= now and (pass <= now + 10240000 or pass <= last + 16)
  if ARGV[7] == 'x' and fits then
    redis.call('SET', KEYS[1], ARGV[4] .. '|' .. ARGV[3] .. '|' .. ARGV[5], 'PX', ARGV[6])
    redis.call('SET', KEYS[2], ARGV[3], 'PX', 86400000)
    return {1, 1}
  end
end
--[[PRELUDE]]
local own = mine(ARGV[1])
if own then drop(own) end
leave_line(ARGV[1])
raise(tonumber(ARGV[2]))
local reply
if ARGV[4] then
  reply = acquire(ARGV[4], ARGV[3], ARGV[5], ARGV[6], ARGV[7], ARGV[8], '0', ARGV[9], ARGV[10], ARGV[11], ARGV[12])
end
hand_over(ARGV[3])
if reply then return {own and 1 or 0, reply} end
return own and 1 or 0
