-- The end of a claim: frees what it holds, leaves the line, raises the fence, hands over; another claim may go with it.
-- KEYS: 1 lock, 2 fence, 3 marker. ARGV: 1 `owner|` or `owner|number to raise to|`, 2 pass; of the other claim, if there is
-- one: 3 its value with the pass as number, 4 ttl, 5 as the fourth of acquire.lua. And a last one where the owner's value may
-- serve another claim by now: the highest token that is freed; a place in line is left alone then.
-- Replies: 1 it was the owner's, 0 it was not; {that, the reply of acquire.lua} if another claim went with it.
local relays = ARGV[5]
local only = ARGV[relays and 6 or 3]
local function is_meant(grant) return not only or tonumber(string.match(grant, '^%x+[|!](%d+)')) <= tonumber(only) end
local value = redis.call('GET', KEYS[1])
-- The common cases: the lock is the owner's, nobody of another process waits, and the fence is where it should be, since
-- it is at the grant's own token at least.
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] and is_meant(value) --[[RAISES_NOTHING]] then
  if not relays then return redis.call('DEL', KEYS[1]) end
  local left = redis.call('PTTL', KEYS[3])
  local fence = redis.call('GET', KEYS[2])
  local pass, now = tonumber(ARGV[2]), (8796093022208 - left) * 1024
  if left >= 0 and string.sub(ARGV[5], 1, 1) == 'x' then
--[[RELAY]]
  end
end
local left = redis.call('PTTL', KEYS[3])
local owner = string.sub(ARGV[1], 1, 40)
-- A node that is not trusted hands nothing over and remembers nothing, but lets go of what it has.
if left < 0 then
  if value and string.sub(value, 1, 40) == owner and is_meant(value) then return redis.call('DEL', KEYS[1]) end
  return 0
end
--[[PRELUDE]]
local own = mine(owner)
if own and not is_meant(own) then own = nil end
if own then drop(own) end
if not only then leave_line(owner) end
raise(tonumber(string.match(ARGV[1], '|(%d+)|$')))
local reply = relays and acquire(ARGV[3], ARGV[2], ARGV[4], ARGV[5])
hand_over(ARGV[2])
if reply then return {own and 1 or 0, reply} end
return own and 1 or 0
