  local bound, now = tonumber(ARGV[2]), (8796093022208 - left) * 1024
  local fence = redis.call('GET', KEYS[2])
  local last, spent = 0, 0
  -- No match: somebody may be in line.
  if fence then last, spent = string.match(fence, '^(%d+)|?(%d*)$') end
  if last and bound > (tonumber(spent) or 0) and bound + 10240000 >= now and bound <= now + 10240000 then
    local token = string.format('%.0f', math.max(last + 1, now))
    local value = string.sub(ARGV[1], 1, 41) .. token .. string.sub(ARGV[1], 42 + #ARGV[2])
    --[[SET_NX_GET]]
    if not held then
      redis.call('SET', KEYS[2], token .. '|' .. ARGV[2], 'PX', '86400000')
      return {1, token}
    end
  end
