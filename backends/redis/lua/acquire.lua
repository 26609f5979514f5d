-- Takes the lock or joins the line. KEYS: 1 lock, 2 fence, 3 marker, 4 line, 5 readers.
-- ARGV: 1 owner, 2 token, 3 tail, 4 ttl, 5 mode, 6 turn (L in line, A after others, O overtake), 7 unify, 8 ticket,
-- 9 lease, 10 inbox, 11 attempt.
-- Replies: 1 granted as proposed; {1, token} granted before, extended; {0, value, last} held; {2, last, now} stale;
-- {3} line full; -1 not trusted.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
-- The common case in three calls: nobody waits, the lock is free, the token fits.
if ARGV[5] == 'x' and redis.call('EXISTS', KEYS[4]) == 0 then
  --[[SET_NX_GET]]
  if not held then
    local previous = redis.call('SET', KEYS[2], ARGV[2], 'GET', 'PX', 86400000)
    local token, now, last = tonumber(ARGV[2]), (8796093022208 - left) * 1024, tonumber(previous or 0)
    if token > last and token >= now and (token <= now + 10240000 or token <= last + 16) then return 1 end
    redis.call('DEL', KEYS[1])
    if previous then redis.call('SET', KEYS[2], previous, 'PX', 86400000) else redis.call('DEL', KEYS[2]) end
    return {2, previous or '0', string.format('%.0f', now)}
  end
end
--[[PRELUDE]]
local owner, token, tail, ttl, mode = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local stale = {2, digits(last), digits(now)}
local own = mine(owner)
if own then
  local stored = token_of(own)
  if ARGV[7] == '1' and stored ~= token then
    if not fits(tonumber(token)) then return stale end
    if v == '~' then call('ZREM', KEYS[5], own) end
    grant(owner, token, mode, ttl, tail)
    return 1
  end
  prolong(own, ttl)
  return {1, stored}
end
if not fits(tonumber(token)) then return stale end
local head, ticket = live_head()
local first = not head or ARGV[6] == 'O'
if not first and ARGV[6] == 'L' then
  local mine_ticket = tonumber(ARGV[8])
  first = mine_ticket < ticket or (mine_ticket == ticket and owner <= head)
end
if first and admits(mode) then
  leave_line(owner)
  grant(owner, token, mode, ttl, tail)
  if mode == 's' then
    -- A reader was let in: the reader behind it may follow.
    local next_owner, _, waiter = live_head()
    if next_owner then
      local inbox, next_mode = string.match(waiter, '^([^|]*)|%d+|%d+|([xs])|')
      if admits(next_mode) then call('PUBLISH', inbox, 'W ' .. next_owner) end
    end
  end
  return 1
end
if ARGV[6] == 'L' then
  if not join(owner, ARGV[8], ARGV[9], ARGV[10], ARGV[11], mode, tail) then return {3} end
  -- The lock may be free, its holder gone without a release: whoever asks wakes the line.
  hand_over(token)
end
local shown = v or ''
if v == '~' then shown = readers[1] end
return {0, shown, digits(last), v and call('PTTL', KEYS[1]) or 0}
