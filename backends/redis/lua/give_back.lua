-- Gives back exactly this token; the claim stays in line. KEYS: 1 lock, 2 fence, 3 marker.
-- ARGV: 1 owner, 2 token, 3 tail, 4 pass, 5 mode, 6 turn, 7 ticket, 8 lease, 9 how long a
-- grant is kept that is handed over, 10 inbox, 11 attempt.
-- Replies: 1 it was the owner's, 0 it was not.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then
  local value = redis.call('GET', KEYS[1])
  local exact = value and string.sub(value, 1, 40) == ARGV[1] and string.match(value, '^%x+[|!](%d+)') == ARGV[2]
  if exact then return redis.call('DEL', KEYS[1]) end
  return 0
end
--[[PRELUDE]]
local own = mine(ARGV[1])
local exact = own and token_of(own) == ARGV[2]
if exact then
  drop(own)
  own = nil
end
if not mints then raise(tonumber(ARGV[2])) end
-- Only with a number that fits: a late give-back must not bring a claim back into the line that has left it.
if ARGV[6] == 'L' and not own and token_for(ARGV[4]) then
  join(ARGV[1], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[5], ARGV[3])
  spend(ARGV[4])
end
hand_over(ARGV[4])
return exact and 1 or 0
