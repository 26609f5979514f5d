-- May this node vote? KEYS: 1 marker, 2 since when it is on probation.
-- ARGV: 1 the cluster's fingerprint, 2 this run of the server, 3 probation in ms, 4 what to do:
--   'judge' go by the marker; 'keep' its data is known to survive restarts: a marker of an earlier run is as good as
--   one of this; 'welcome' trust it, unless it belongs to another cluster (a store of one, a first use);
--   'accept' trust it whatever the marker says (an operator's word).
-- Replies: {1} trusted; {0, ms left} on probation; {2, fingerprint} it belongs to another cluster.
local marker = redis.call('GET', KEYS[1])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function trust()
  redis.call('SET', KEYS[1], ARGV[1] .. '|' .. ARGV[2])
  -- Fixed for all nodes and all time: 2025-01-01 plus 2^43 ms. So its PTTL tells the time.
  redis.call('PEXPIREAT', KEYS[1], '10531782622208')
  redis.call('DEL', KEYS[2])
  return {1}
end
if marker then
  local fingerprint, run = string.match(marker, '^(.*)|([^|]*)$')
  if fingerprint ~= ARGV[1] then
    if ARGV[4] ~= 'accept' then return {2, fingerprint} end
    return trust()
  end
  if run == ARGV[2] then return {1} end
  if ARGV[4] ~= 'judge' then return trust() end
  -- An earlier run: what it remembers may be old.
  redis.call('DEL', KEYS[1])
elseif ARGV[4] == 'accept' or ARGV[4] == 'welcome' then
  return trust()
end
local since, run = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+)|(.*)$')
if run ~= ARGV[2] then
  -- Rounded up: `now_ms` has lost part of a millisecond, and a probation is never shorter than asked.
  since = string.format('%.0f', now_ms + 1)
  redis.call('SET', KEYS[2], since .. '|' .. ARGV[2])
end
local rest = tonumber(since) + tonumber(ARGV[3]) - now_ms
if rest <= 0 then return trust() end
return {0, math.ceil(rest)}
