  local value = ARGV[1]
  --[[SET_NX_GET]]
  if not held then
    local previous = redis.call('SET', KEYS[2], ARGV[2], 'GET', 'PX', '86400000')
    local token, now, last = tonumber(ARGV[2]), (8796093022208 - left) * 1024, tonumber(previous or 0)
    if last and token > last and token >= now and (token <= now + 10240000 or token <= last + 16) then return 1 end
    redis.call('DEL', KEYS[1])
    if previous then redis.call('SET', KEYS[2], previous, 'PX', '86400000') else redis.call('DEL', KEYS[2]) end
    -- No number: it is marked, somebody may be in line.
    if last then return {2, previous or '0', string.format('%.0f', now)} end
  end
