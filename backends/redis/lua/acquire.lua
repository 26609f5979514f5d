-- Takes the lock or joins the line. KEYS: 1 lock, 2 fence, 3 marker.
-- ARGV: 1 the value `owner|token|tail`, 2 token, 3 ttl, 4 `mode|turn|unify|ticket|lease|kept_for|inbox|attempt`, where the turn is
-- L in line (a ticket of 0: the next one), A after others, O overtake.
-- Replies: 1 granted as proposed; {1, token} granted before, extended; {0, value (a reader's after a ~), last, PTTL, its ticket if it is in line} held;
-- {2, last, now} stale; {3} line full; -1 not trusted.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
-- The common case in three calls: the lock is free, nobody waits, the token fits.
if string.sub(ARGV[4], 1, 1) == 'x' then
  --[[SET_NX_GET]]
  if not held then
    local previous = redis.call('SET', KEYS[2], ARGV[2], 'GET', 'PX', '86400000')
    local token, now, last = tonumber(ARGV[2]), (8796093022208 - left) * 1024, tonumber(previous or 0)
    if last and token > last and token >= now and (token <= now + 10240000 or token <= last + 16) then return 1 end
    redis.call('DEL', KEYS[1])
    if previous then redis.call('SET', KEYS[2], previous, 'PX', '86400000') else redis.call('DEL', KEYS[2]) end
    -- No number: it is marked, somebody may be in line.
    if last then return {2, previous or '0', string.format('%.0f', now)} end
  end
end
--[[PRELUDE]]
return acquire(ARGV[1], ARGV[2], ARGV[3], ARGV[4])
