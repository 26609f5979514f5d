-- The end of a claim: frees what it holds, leaves the line, raises the fence, hands over; another claim may go with it.
-- KEYS: 1 lock, 2 fence, 3 marker. ARGV: 1 `owner|` or `owner|token to raise to|`, 2 pass; of the other claim, if there is
-- one: 3 its value with the pass as token, 4 ttl, 5 as the fourth of acquire.lua.
-- Replies: 1 it was the owner's, 0 it was not; {that, the reply of acquire.lua} if another claim went with it.
local value = redis.call('GET', KEYS[1])
-- The common cases: the lock is the owner's, nobody of another process waits, and the fence is where it should be, since
-- it is at the grant's own token at least.
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  if not ARGV[3] then return redis.call('DEL', KEYS[1]) end
  local left = redis.call('PTTL', KEYS[3])
  local fence = redis.call('GET', KEYS[2])
  local pass, now, last = tonumber(ARGV[2]), (8796093022208 - left) * 1024, tonumber(fence or 0)
  local fits = last and pass > last and pass >= now and (pass <= now + 10240000 or pass <= last + 16)
  if left >= 0 and fits and string.sub(ARGV[5], 1, 1) == 'x' then
    redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
    redis.call('SET', KEYS[2], ARGV[2], 'PX', '86400000')
    return {1, 1}
  end
end
local left = redis.call('PTTL', KEYS[3])
local owner = string.sub(ARGV[1], 1, 40)
-- A node that is not trusted hands nothing over and remembers nothing, but lets go of what it has.
if left < 0 then
  if value and string.sub(value, 1, 40) == owner then return redis.call('DEL', KEYS[1]) end
  return 0
end
--[[PRELUDE]]
local own = mine(owner)
if own then drop(own) end
leave_line(owner)
raise(tonumber(string.match(ARGV[1], '|(%d+)|$')))
local reply = ARGV[3] and acquire(ARGV[3], ARGV[2], ARGV[4], ARGV[5])
hand_over(ARGV[2])
if reply then return {own and 1 or 0, reply} end
return own and 1 or 0
