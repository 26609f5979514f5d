-- What the scripts of Redisson's layout share. KEYS: 1 the lock, 2 fence; `left` is as in prelude.lua.
-- The lock is a hash with one field, `client-id:number` of whoever holds it, and how often they entered it. Ours is made
-- of the owner, so a request that arrives twice finds its own field and counts once. What only we know stands beside it,
-- as long as the lock: `owner|token|tail`, as the value of a lock of ours in the other layout.
local call = redis.call
local record = 'fp:held:' .. string.sub(KEYS[2], 10)
local now = (8796093022208 - left) * 1024
--[[NUMBERS]]

local function owner_of(value) return string.sub(value, 1, 40) end
local function token_of(value) return string.match(value, '^%x+|(%d+)') end

local function field_of(owner)
  local parts = {{1, 8}, {9, 12}, {13, 16}, {17, 20}, {21, 32}}
  for at, part in ipairs(parts) do parts[at] = string.sub(owner, part[1], part[2]) end
  return table.concat(parts, '-') .. ':' .. digits(tonumber(string.sub(owner, 33, 40), 16))
end

-- Who holds it: nil nobody, our record, `?=field` a client of Redisson's, `?type` something that is no such lock.
local function holder()
  local kind = call('TYPE', KEYS[1]).ok
  if kind == 'none' then return nil end
  -- Only a lock has exactly one such field; a map may be large.
  local field = kind == 'hash' and call('HLEN', KEYS[1]) == 1 and call('HKEYS', KEYS[1])[1]
  if not field or not string.match(field, '^%x+%-%x+%-%x+%-%x+%-%x+:[%w%-]+$') then return '?' .. kind end
  local value = call('GET', record)
  if value and field_of(owner_of(value)) == field then return value end
  return '?=' .. field
end

local function is_ours(value) return string.sub(value, 1, 1) ~= '?' end

-- The same for those who want to change it.
local function lock_holder()
  local value = holder()
  if value and string.match(value, '^%?[^=]') then error('WRONGTYPE it is no lock of Redisson') end
  return value
end

-- Tells whoever waits, ours and theirs.
local function publish(channel)
  call('PUBLISH', channel, '0')
  --[[SPUBLISH]]
end
