-- Throws out whoever holds it. KEYS: 1 lock, 2 fence, 3 marker.
-- ARGV: 1 the token to raise to, 2 pass, 3 start of the keys that remember who was thrown out.
-- Replies: the values thrown out (a reader's after a ~), each followed by its PTTL; -1 not trusted.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
--[[PRELUDE]]
local thrown_out = {}
local function evict(value, mark)
  thrown_out[#thrown_out + 1] = mark .. value
  thrown_out[#thrown_out + 1] = call('PTTL', KEYS[1])
  call('SET', ARGV[3] .. owner_of(value), '1', 'PX', '86400000')
end
if v == '~' then
  for _, reader in ipairs(readers) do evict(reader, '~') end
elseif v then
  evict(v, '')
end
if v then
  call('DEL', KEYS[1], readers_key)
  v, readers = false, {}
end
raise_above_evicted(ARGV[1])
hand_over(ARGV[2])
return thrown_out
