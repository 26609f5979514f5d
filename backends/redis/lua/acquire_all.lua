-- Takes several locks, or changes nothing. KEYS: 1 lock, 2 fence, 3 marker; then lock and fence of each of the others.
-- ARGV: of each its value `owner|number|tail`, its number, its ttl.
-- Replies: the tokens, if all are granted; 0 one of them is held, waited for or its number does not fit, which
-- acquire.lua tells apart; -1 not trusted.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
local now = (8796093022208 - left) * 1024
local count = #ARGV / 3
local tokens, fences = {}, {}
local function keys_of(number)
  if number == 1 then return KEYS[1], KEYS[2] end
  return KEYS[2 * number], KEYS[2 * number + 1]
end
for number = 1, count do
  local lock, fence = keys_of(number)
  if redis.call('EXISTS', lock) == 1 then return 0 end
  local asked, known = tonumber(ARGV[3 * number - 1]), redis.call('GET', fence)
--[[EACH]]
end
for number = 1, count do
  local lock, fence = keys_of(number)
  local value, token = ARGV[3 * number - 2], tokens[number]
  value = string.sub(value, 1, 41) .. token .. string.sub(value, 42 + #ARGV[3 * number - 1])
  redis.call('SET', lock, value, 'PX', ARGV[3 * number])
  redis.call('SET', fence, fences[number], 'PX', '86400000')
end
return tokens
