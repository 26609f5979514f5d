-- Keeps the lock for one more ttl; re-creates a missing grant only if nobody waits and no later token was seen. A grant of the owner's under
-- a higher token came by a late request, after others may have had the lock: it does not count. One under a lower token is
-- put under this one, so that no give-back of that one, which may be under way still, frees it.
-- KEYS: 1 lock, 2 fence, 3 marker; the last two: revoked, asked. ARGV: 1 owner, 2 token, 3 tail, 4 ttl, 5 mode, 6 the
-- token for whoever a downgrade lets in: of a reader whose grant is still a writer's; else it may be 0; 7 whether a missing
-- grant is made again: 0 never, 1 if no later token was seen, and one under a lower token is put under this one, 2 only if
-- nothing is known of the lock any more.
-- Replies: 1 kept, {1, request} kept and asked to let go, 0 taken over, 4 revoked, -1 not trusted.
local function token_in(value) return string.match(value, '^%x+[|!](%d+)') end
local function kept(value)
  local asked = redis.call('GET', KEYS[#KEYS])
  if not asked then return 1 end
  local token, request = string.match(asked, '^(%d*)|(.*)$')
  if token ~= token_in(value) then return 1 end
  redis.call('PEXPIRE', KEYS[#KEYS], ARGV[4])
  return {1, request}
end
if ARGV[5] == 'x' then
  local value = redis.call('GET', KEYS[1])
  if value and string.sub(value, 1, 40) == ARGV[1] and token_in(value) == ARGV[2] --[[IN_SET]] then
    redis.call('PEXPIRE', KEYS[2], '86400000')
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
    return kept(value)
  end
end
local left = redis.call('PTTL', KEYS[3])
if left < 0 then
  if redis.call('EXISTS', KEYS[#KEYS - 1]) == 1 then return 4 end
  return -1
end
--[[PRELUDE]]
local own = mine(ARGV[1])
local token = tonumber(ARGV[2])
if own and (token_of(own) == ARGV[2] or (ARGV[7] == '1' and tonumber(token_of(own)) < token)) then
  local downgraded = ARGV[5] == 's' and v ~= '~'
  if token_of(own) ~= ARGV[2] and not below_ceiling(token, last) then return 0 end
  if downgraded or token_of(own) ~= ARGV[2] then
    local tail = string.match(own, '^%x+[|!]%d+|(.*)$')
    grant(ARGV[1], ARGV[2], (downgraded or v == '~') and 's' or 'x', tonumber(ARGV[4]), tail)
    own = mine(ARGV[1])
    if downgraded and ARGV[6] ~= '0' then hand_over(ARGV[6]) end
  else
    prolong(own, tonumber(ARGV[4]))
  end
  call('PEXPIRE', KEYS[2], '86400000')
  return kept(own)
end
if call('EXISTS', KEYS[#KEYS - 1]) == 1 then return 4 end
local may_be_made = ARGV[7] == '1' and last <= token and admits(ARGV[5]) or ARGV[7] == '2' and last == 0 and not v
if not may_be_made or not below_ceiling(token, last) or live_head() then return 0 end
grant(ARGV[1], ARGV[2], ARGV[5], tonumber(ARGV[4]), ARGV[3])
return 1
