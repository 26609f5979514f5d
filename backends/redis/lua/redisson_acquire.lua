-- Takes the lock. KEYS: 1 lock, 2 fence, 3 marker. ARGV: 1 the record `owner|bound|tail`, 2 the bound, 3 ttl.
-- Replies: those of acquire.lua, but for the line.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
--[[REDISSON]]
local ttl = tonumber(ARGV[3])
local field = field_of(owner_of(ARGV[1]))
local held = lock_holder()
if held and call('HEXISTS', KEYS[1], field) == 1 then
  local stored = is_ours(held) and token_of(held)
  local life = math.max(call('PTTL', KEYS[1]), ttl)
  if not stored then
    local token = token_for(ARGV[2])
    if not token then return stale() end
    call('SET', record, with_token(ARGV[1], ARGV[2], token), 'PX', digits(life))
    will_spend(ARGV[2])
    set_last(tonumber(token))
    stored = token
  else
    call('PEXPIRE', record, digits(life))
    spend(ARGV[2])
  end
  call('PEXPIRE', KEYS[1], digits(life))
  return {1, stored}
end
local token = token_for(ARGV[2])
if not token then return stale() end
if held then return {0, held, digits(last), call('PTTL', KEYS[1])} end
call('HINCRBY', KEYS[1], field, 1)
call('PEXPIRE', KEYS[1], ARGV[3])
call('SET', record, with_token(ARGV[1], ARGV[2], token), 'PX', ARGV[3])
will_spend(ARGV[2])
set_last(tonumber(token))
return {1, token}
