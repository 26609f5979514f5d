-- Takes several locks, or changes nothing. KEYS: 1 lock, 2 fence, 3 marker; then lock and fence of each of the others.
-- ARGV: of each its value `owner|token|tail`, its token, its ttl.
-- Replies: the tokens, if all are granted as proposed; 0 one of them is held, waited for or its token does not fit, which
-- acquire.lua tells apart; -1 not trusted.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
local now = (8796093022208 - left) * 1024
local count = #ARGV / 3
local function keys_of(number)
  if number == 1 then return KEYS[1], KEYS[2] end
  return KEYS[2 * number], KEYS[2 * number + 1]
end
for number = 1, count do
  local lock, fence = keys_of(number)
  if redis.call('EXISTS', lock) == 1 then return 0 end
  local token, last = tonumber(ARGV[3 * number - 1]), tonumber(redis.call('GET', fence) or 0)
  -- No number: it is marked, somebody may be in line.
  if not last or token <= last or token < now or (token > now + 10240000 and token > last + 16) then return 0 end
end
local tokens = {}
for number = 1, count do
  local lock, fence = keys_of(number)
  tokens[number] = ARGV[3 * number - 1]
  redis.call('SET', lock, ARGV[3 * number - 2], 'PX', ARGV[3 * number])
  redis.call('SET', fence, tokens[number], 'PX', '86400000')
end
return tokens
