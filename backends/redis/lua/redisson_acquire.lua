-- Takes the lock. KEYS: 1 lock, 2 fence, 3 marker. ARGV: 1 the record `owner|token|tail`, 2 token, 3 ttl, 4 unify.
-- Replies: those of acquire.lua, but for the line.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
--[[REDISSON]]
local token, ttl = tonumber(ARGV[2]), tonumber(ARGV[3])
local field = field_of(owner_of(ARGV[1]))
local stale = {2, digits(last), digits(now)}
local held = lock_holder()
if held and call('HEXISTS', KEYS[1], field) == 1 then
  local stored = is_ours(held) and token_of(held)
  local life = math.max(call('PTTL', KEYS[1]), ttl)
  if not stored or (ARGV[4] == '1' and stored ~= ARGV[2]) then
    if not fits(token) then return stale end
    call('SET', record, ARGV[1], 'PX', digits(life))
    set_last(token)
  else
    call('PEXPIRE', record, digits(life))
  end
  call('PEXPIRE', KEYS[1], digits(life))
  return {1, stored and ARGV[4] ~= '1' and stored or ARGV[2]}
end
if not fits(token) then return stale end
if held then return {0, held, digits(last), call('PTTL', KEYS[1])} end
call('HINCRBY', KEYS[1], field, 1)
call('PEXPIRE', KEYS[1], ARGV[3])
call('SET', record, ARGV[1], 'PX', ARGV[3])
set_last(token)
return 1
