    local last = tonumber(fence or 0)
    -- No number: it is marked, somebody may be in line.
    if last and pass > last and pass >= now and (pass <= now + 10240000 or pass <= last + 16) then
      redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
      redis.call('SET', KEYS[2], ARGV[2], 'PX', '86400000')
      return {1, 1}
    end
