-- Takes the lock or joins the line. KEYS: 1 lock, 2 fence, 3 marker.
-- ARGV: 1 the value `owner|number|tail`, 2 the number: the token, or a bound where the server mints; 3 ttl,
-- 4 `mode|turn|unify|ticket|lease|kept_for|inbox|attempt`, where the turn is L in line (a ticket of 0: the next one), A after
-- others, O overtake.
-- Replies: 1 granted as proposed; {1, token} minted, or granted before and extended; {0, value (a reader's after a ~), last,
-- PTTL, its ticket if it is in line} held; {2, what the number must be above, now} stale; {3} line full; -1 not trusted.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
-- The common case in few calls: the lock is free, nobody waits, the number fits.
if string.sub(ARGV[4], 1, 1) == 'x' then
--[[TAKE]]
end
--[[PRELUDE]]
return acquire(ARGV[1], ARGV[2], ARGV[3], ARGV[4])
