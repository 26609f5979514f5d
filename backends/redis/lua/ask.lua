-- Asks whoever holds it to let go; renew.lua tells them. KEYS: 1 lock, 2 fence, 3 marker.
-- ARGV: 1 start of the keys that keep requests, 2 the request.
-- Replies: the values asked (a reader's after a ~), each followed by its PTTL; -1 not trusted.
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return -1 end
--[[PRELUDE]]
local asked, rest = {}, v and call('PTTL', KEYS[1]) or 0
local function ask(value, mark)
  asked[#asked + 1] = mark .. value
  asked[#asked + 1] = rest
  -- An owner of ours is 40 digits; another library's holder cannot hear. The token says which grant is meant.
  if rest > 0 and string.match(value, '^%x+()') == 41 then
    call('SET', ARGV[1] .. owner_of(value), (token_of(value) or '') .. '|' .. ARGV[2], 'PX', rest)
  end
end
if v == '~' then
  for _, reader in ipairs(readers) do ask(reader, '~') end
elseif v then
  ask(v, '')
end
return asked
