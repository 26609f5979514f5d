  local last, spent = 0, 0
  -- No match: somebody may be in line.
  if known then last, spent = string.match(known, '^(%d+)|?(%d*)$') end
  if not last or asked <= (tonumber(spent) or 0) or asked + 10240000 < now or asked > now + 10240000 then return 0 end
  tokens[number] = string.format('%.0f', math.max(last + 1, now))
  fences[number] = tokens[number] .. '|' .. ARGV[3 * number - 1]
