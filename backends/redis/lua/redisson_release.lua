-- The end of a claim, or of one grant of it: frees the lock if it is the owner's, tells whoever waits, raises the fence.
-- KEYS: 1 lock, 2 fence, 3 marker. ARGV: 1 owner, 2 the number to raise to, or nothing, 3 channel, 4 whether another claim
-- went with it, 5 the token it must have, or nothing, 6 the highest token it may have, or nothing.
-- Replies: 1 it was the owner's, 0 it was not; {that, held} if another claim went with it: that one has to ask like all
-- others who are told, or those of other processes would never have their turn.
local left = redis.call('PTTL', KEYS[3])
--[[REDISSON]]
local value = call('GET', record) or ''
local recorded = owner_of(value) == ARGV[1]
local exact = ARGV[5] == '' or (recorded and token_of(value) == ARGV[5])
if ARGV[6] and ARGV[6] ~= '' then exact = recorded and tonumber(token_of(value)) <= tonumber(ARGV[6]) end
local freed = exact and call('HDEL', KEYS[1], field_of(ARGV[1])) or 0
if freed == 1 and recorded then call('DEL', record) end
-- A node that is not trusted remembers nothing.
if left >= 0 then raise(tonumber(ARGV[2])) end
if freed == 1 then publish(ARGV[3]) end
if ARGV[4] == '1' then return {freed, {0, '', digits(last), 0}} end
return freed
