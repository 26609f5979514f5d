-- Changes the sets of a node, if it is still as it was when that was decided. KEYS: 1 marker, 2 probation, 3 a key that
-- lives as long as leases of a set that was left may; without an end, until its clients were sent away. ARGV: 1 the marker as
-- it was, 2 the probation as it was, nothing where there was none, 3 the new sets, 4 this run of the server, 5 whether a set is
-- left: 1 or 0, 6 every set that it could have been in.
-- Replies: the probation as it is now, nothing where there is none; nil: it is otherwise. A node on probation is told which
-- sets it was in, and stays on probation.
local marker, probation = redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2]) or ''
if marker ~= ARGV[1] or probation ~= ARGV[2] then return false end
if probation ~= '' then
  local since, run, asked = string.match(probation, '^(%d+)|([^|]*)|?[^|]*|?(.*)$')
  probation = since .. '|' .. run .. '|' .. ARGV[3] .. '|' .. asked
  redis.call('SET', KEYS[2], probation)
  return probation
end
each_sign(ARGV[6], function(sign) redis.call('DEL', sign) end)
put(KEYS[1], ARGV[3] .. '|' .. ARGV[4])
each_sign(ARGV[3], function(sign) put(sign, '') end)
if ARGV[5] == '1' then redis.call('SET', KEYS[3], '') end
return ''
