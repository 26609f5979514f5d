-- What a marker is made of. KEYS: 1 marker; 3 is the marker itself where there is but one set, which has no key of its own.
-- Sets are separated by `;`. One behind a `-` was left, one behind a `>` is where its clients are to go, and a `#` is before a
-- number that is another one after every change: in none of these it votes.
local function has(list, entry)
  for set in string.gmatch(list, '[^;]+') do
    if set == entry then return true end
  end
  return false
end
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
