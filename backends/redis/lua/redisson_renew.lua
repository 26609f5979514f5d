-- Keeps the lock for one more ttl if its field is there, and not from a later request of the same owner. It is never put back: whoever of Redisson's had the lock
-- meanwhile left no trace. KEYS: 1 lock, 2 fence, 3 marker; the last two: revoked, asked. ARGV: 1 owner, 2 ttl,
-- 3 token, 4 whether one under a lower token is put under this one: 1 or 0.
-- Replies: those of renew.lua.
local left = redis.call('PTTL', KEYS[3])
--[[REDISSON]]
local stored = token_of(call('GET', record) or '')
local later = stored and (tonumber(stored) > tonumber(ARGV[3]) or (ARGV[4] ~= '1' and stored ~= ARGV[3]))
if later or call('HEXISTS', KEYS[1], field_of(ARGV[1])) == 0 then
  if call('EXISTS', KEYS[#KEYS - 1]) == 1 then return 4 end
  return left < 0 and -1 or 0
end
-- An older one of its own is put under this token, as renew.lua has it.
if stored and stored ~= ARGV[3] then
  local token = tonumber(ARGV[3])
  if left < 0 then return -1 end
  if not below_ceiling(token) then return 0 end
  call('SET', record, (string.gsub(call('GET', record), '|%d+', '|' .. ARGV[3], 1)), 'KEEPTTL')
  if token > last then set_last(token) end
  stored = ARGV[3]
end
call('PEXPIRE', KEYS[1], ARGV[2])
call('PEXPIRE', record, ARGV[2])
call('PEXPIRE', KEYS[2], '86400000')
local token, request = string.match(call('GET', KEYS[#KEYS]) or '', '^(%d*)|(.*)$')
if not token or token ~= stored then return 1 end
call('PEXPIRE', KEYS[#KEYS], ARGV[2])
return {1, request}
