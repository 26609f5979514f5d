-- May this node vote? KEYS: 1 marker: the sets of nodes it votes in, and since which run; 2 since when it is on probation, in
-- which run, which sets it remembers, and who has asked since; 3 the key by which the scripts see that it votes in the asking
-- set: the marker itself where there is but one set.
-- ARGV: 1 the asking set, 2 this run of the server, 3 probation in ms, 4 what to do:
--   'judge' go by the marker; 'keep' its data is known to survive restarts: a marker of an earlier run is as good as
--   one of this; 'welcome' trust it, unless it belongs to another cluster (a store of one, a first use);
--   'accept' trust it whatever the marker says (an operator's word), unless the asking set was left (another took its place), or
--   another one is about to be;
-- 5 whether the asker vouches that its set still votes: 0 no, 1 all that it heard may have forgotten, 2 somebody votes in it;
--   nothing: it asks for no client. A node that forgot is let in by 2, or by 1 if nobody asked for another set.
-- Replies: {1} trusted; {0, ms left} on probation; {0, 0, set} that is over, but clients of this set ask, too; {2, sets} it
-- votes in other sets.
local marker = redis.call('GET', KEYS[1])
local sets, run = string.match(marker or '', '^(.*)|([^|]*)$')
local since, since_run, known, asked =
  string.match(redis.call('GET', KEYS[2]) or '', '^(%d+)|([^|]*)|?([^|]*)|?(.*)$')
known = sets or known or ''
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local is_other = known ~= '' and not has(known, ARGV[1])
local function is_changing(list)
  for set in string.gmatch(list, '[^;]+') do
    if string.find(set, '^%x+ .* and ') then return true end
  end
  return false
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
-- Another marker each time: whoever saw one of before changes nothing any more.
local function let_in(list)
  if KEYS[3] == KEYS[1] then return trust(list) end
  return trust(list .. ';#' .. string.format('%.0f', now_ms))
end
if is_other and ARGV[4] == 'accept' and (has(known, '-' .. ARGV[1]) or is_changing(known)) then return {2, known} end
if sets and is_other then
  if ARGV[4] ~= 'accept' then return {2, sets} end
  forget(sets)
  return let_in(ARGV[1])
end
if sets then
  if run == ARGV[2] and redis.call('EXISTS', KEYS[3]) == 1 then return {1} end
  if run == ARGV[2] or ARGV[4] ~= 'judge' then return trust(sets) end
  -- An earlier run: what it remembers may be old.
  forget(sets)
elseif ARGV[4] == 'accept' or ARGV[4] == 'welcome' then
  return let_in(ARGV[1])
end
if is_other then return {2, known} end
local is_new = since_run ~= ARGV[2]
if is_new then
  -- Rounded up: `now_ms` has lost part of a millisecond, and a probation is never shorter than asked.
  since, asked = string.format('%.0f', now_ms + 1), ''
end
-- Two are enough: of these one is another than whoever asks.
local first, second = string.match(asked, '^([^;]*);?(.*)$')
local is_noted = ARGV[5] == '' or second ~= '' or first == ARGV[1]
if not is_noted then
  if first == '' then first = ARGV[1] else second = ARGV[1] end
end
if is_new or not is_noted then
  local askers = second == '' and first or first .. ';' .. second
  redis.call('SET', KEYS[2], since .. '|' .. ARGV[2] .. '|' .. known .. '|' .. askers)
end
local rest = tonumber(since) + tonumber(ARGV[3]) - now_ms
if rest > 0 then return {0, math.ceil(rest)} end
if ARGV[5] == '1' then
  -- Nobody remembers that this set votes: it may be one that was left.
  if first ~= ARGV[1] then return {0, 0, first} end
  if second ~= '' then return {0, 0, second} end
elseif ARGV[5] ~= '2' then
  return {0, 0}
end
-- Into the set that asks and no other: what it remembers of others may be from before they were closed.
local list = ARGV[1]
for set in string.gmatch(known, '[^;]+') do
  if string.sub(set, 1, 1) == '-' then list = list .. ';' .. set end
end
return let_in(list)
