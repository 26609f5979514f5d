    local last, spent = 0, 0
    -- No match: somebody may be in line.
    if fence then last, spent = string.match(fence, '^(%d+)|?(%d*)$') end
    if last and pass > (tonumber(spent) or 0) and pass + 10240000 >= now and pass <= now + 10240000 then
      local token = string.format('%.0f', math.max(last + 1, now))
      redis.call('SET', KEYS[1], string.sub(ARGV[3], 1, 41) .. token .. string.sub(ARGV[3], 42 + #ARGV[2]), 'PX', ARGV[4])
      redis.call('SET', KEYS[2], token .. '|' .. ARGV[2], 'PX', '86400000')
      return {1, {1, token}}
    end
