-- Takes the lock or joins the line. KEYS: 1 lock, 2 fence, 3 marker, 4 line, 5 readers.
-- ARGV: 1 owner, 2 token, 3 tail, 4 ttl, 5 mode, 6 turn (L in line, A after others, O overtake), 7 unify, 8 ticket,
-- 9 lease, 10 inbox, 11 attempt.
-- Replies: 1 granted as proposed; {1, token} granted before, extended; {0, value (a reader's after a ~), last, PTTL} held; {2, last, now} stale;
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
return acquire(unpack(ARGV))
