-- Changes the sets of a node, if it is still as it was when that was decided. KEYS: 1 marker, 2 probation, 3 a key that
-- lives as long as leases of a set that was left may; without an end, until its clients were sent away. ARGV: 1 the marker as it was, 2 the probation as it was, nothing
-- where there was none, 3 the new sets, 4 this run of the server, 5 whether a set is left: 1 or 0,
-- 6 every set that it could have been in.
-- Replies: 1 done, 0 it is otherwise. A node on probation is told which sets it was in, and stays on probation.
local marker, probation = redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2]) or ''
if marker ~= ARGV[1] or probation ~= ARGV[2] then return 0 end
if probation ~= '' then
  local since, run = string.match(probation, '^(%d+)|([^|]*)')
  redis.call('SET', KEYS[2], since .. '|' .. run .. '|' .. ARGV[3])
  return 1
end
local function put(key, value)
  redis.call('SET', key, value)
  redis.call('PEXPIREAT', key, '10531782622208')
end
local function each_sign(list, act)
  for set in string.gmatch(list, '[^;]+') do
    local number = string.match(set, '^%x+')
    if number then act(KEYS[1] .. ':' .. number) end
  end
end
each_sign(ARGV[6], function(sign) redis.call('DEL', sign) end)
put(KEYS[1], ARGV[3] .. '|' .. ARGV[4])
each_sign(ARGV[3], function(sign) put(sign, '') end)
if ARGV[5] == '1' then redis.call('SET', KEYS[3], '') end
return 1
