-- Keeps the lock for one more ttl if its field is there under this token. The field is never put back: a client of Redisson's
-- that had the lock meanwhile left no trace. KEYS: 1 lock, 2 fence, 3 marker; the last two: revoked, asked. ARGV: 1 owner, 2 ttl,
-- 3 token.
-- Replies: those of renew.lua.
local left = redis.call('PTTL', KEYS[3])
--[[REDISSON]]
local stored = token_of(call('GET', record) or '')
if (stored and stored ~= ARGV[3]) or call('HEXISTS', KEYS[1], field_of(ARGV[1])) == 0 then
  if call('EXISTS', KEYS[#KEYS - 1]) == 1 then return 4 end
  return left < 0 and -1 or 0
end
call('PEXPIRE', KEYS[1], ARGV[2])
call('PEXPIRE', record, ARGV[2])
call('PEXPIRE', KEYS[2], '86400000')
local token, request = string.match(call('GET', KEYS[#KEYS]) or '', '^(%d*)|(.*)$')
if not token or token ~= stored then return 1 end
call('PEXPIRE', KEYS[#KEYS], ARGV[2])
return {1, request}
