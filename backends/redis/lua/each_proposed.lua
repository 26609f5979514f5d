  local last = tonumber(known or 0)
  -- No number: it is marked, somebody may be in line.
  if not last or asked <= last or asked < now or (asked > now + 10240000 and asked > last + 16) then return 0 end
  tokens[number] = ARGV[3 * number - 1]
  fences[number] = tokens[number]
