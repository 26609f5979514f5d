-- May this node vote? KEYS: 1 marker: the sets of nodes it votes in, and since which run; 2 since when it is on probation;
-- 3 the key by which the scripts see that it votes in the asking set: the marker itself where there is but one set.
-- ARGV: 1 the asking set, 2 this run of the server, 3 probation in ms, 4 what to do:
--   'judge' go by the marker; 'keep' its data is known to survive restarts: a marker of an earlier run is as good as
--   one of this; 'welcome' trust it, unless it belongs to another cluster (a store of one, a first use);
--   'accept' trust it whatever the marker says (an operator's word), unless the asking set was left: another took its place;
-- 5 whether the asker vouches that its set still votes: 1 or 0. Else a node that forgot is let into no set.
-- Replies: {1} trusted; {0, ms left} on probation; {2, sets} it votes in other sets.
-- Sets are separated by `;`. One behind a `-` was left, and one behind a `>` is where its clients are to go: in neither it votes.
local marker = redis.call('GET', KEYS[1])
local sets, run = string.match(marker or '', '^(.*)|([^|]*)$')
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function has(list, entry)
  for set in string.gmatch(list, '[^;]+') do
    if set == entry then return true end
  end
  return false
end
local function votes_in(list) return has(list, ARGV[1]) end
local function each_sign(list, act)
  if KEYS[3] == KEYS[1] then return end
  for set in string.gmatch(list, '[^;]+') do
    local number = string.match(set, '^%x+')
    if number then act(KEYS[1] .. ':' .. number) end
  end
end
local function put(key, value)
  redis.call('SET', key, value)
  -- Fixed for all nodes and all time: 2025-01-01 plus 2^43 ms. So its PTTL tells the time.
  redis.call('PEXPIREAT', key, '10531782622208')
end
local function forget(list)
  redis.call('DEL', KEYS[1])
  each_sign(list, function(sign) redis.call('DEL', sign) end)
end
local function trust(list)
  put(KEYS[1], list .. '|' .. ARGV[2])
  each_sign(list, function(sign) put(sign, '') end)
  redis.call('DEL', KEYS[2])
  return {1}
end
if sets and not votes_in(sets) then
  if ARGV[4] ~= 'accept' or has(sets, '-' .. ARGV[1]) then return {2, sets} end
  forget(sets)
  return trust(ARGV[1])
end
if sets then
  if run == ARGV[2] and redis.call('EXISTS', KEYS[3]) == 1 then return {1} end
  if run == ARGV[2] or ARGV[4] ~= 'judge' then return trust(sets) end
  -- An earlier run: what it remembers may be old.
  forget(sets)
elseif ARGV[4] == 'accept' or ARGV[4] == 'welcome' then
  return trust(ARGV[1])
end
local since, since_run, known = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+)|([^|]*)|?(.*)$')
known = sets or known or ''
if known ~= '' and not votes_in(known) then return {2, known} end
if since_run ~= ARGV[2] then
  -- Rounded up: `now_ms` has lost part of a millisecond, and a probation is never shorter than asked.
  since = string.format('%.0f', now_ms + 1)
  redis.call('SET', KEYS[2], since .. '|' .. ARGV[2] .. '|' .. known)
end
local rest = tonumber(since) + tonumber(ARGV[3]) - now_ms
if rest > 0 then return {0, math.ceil(rest)} end
if ARGV[5] ~= '1' then return {0, 0} end
-- Into the set that asks and no other: what it remembers of others may be from before they were closed.
local list = ARGV[1]
for set in string.gmatch(known, '[^;]+') do
  if string.sub(set, 1, 1) == '-' then list = list .. ';' .. set end
end
return trust(list)
