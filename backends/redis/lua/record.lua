-- Reads or writes the record beside a lock. KEYS: 1 lock, 2 fence, 3 marker; the last: the record, which is
-- `token|until|value`, with the value's end in milliseconds of the node's clock, 0 for none.
-- ARGV: 1 what to do: r read, s seal, p put; then 2 token, 3 how long to keep it, 4 value.
-- Replies: {1, token, time left, value} what is there, 0 nothing is; 1 stored; {2, token} a newer one was seen; -1 not trusted.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
local now = 8796093022208 - left
local key = KEYS[#KEYS]
local token, till, value = '0', 0, ''
local kept = redis.call('GET', key)
if kept then
  local _, head, seen, ends = string.find(kept, '^(%d+)|(%d+)|')
  token, till = seen, tonumber(ends)
  value = string.sub(kept, head + 1)
end
if till <= now then till, value = 0, '' end
local function shown() return till > 0 and {1, token, till - now, value} or 0 end
if ARGV[1] == 'r' then return shown() end
if tonumber(token) > tonumber(ARGV[2]) then return {2, token} end
token = ARGV[2]
if ARGV[1] == 'p' then
  local keep = tonumber(ARGV[3])
  till, value = keep > 0 and now + keep or 0, ARGV[4]
end
local life = math.max(till - now, 86400000)
redis.call('SET', key, token .. '|' .. string.format('%.0f', till) .. '|' .. (till > 0 and value or ''), 'PX', string.format('%.0f', life))
return ARGV[1] == 'p' and 1 or shown()
