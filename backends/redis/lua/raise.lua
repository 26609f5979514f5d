-- Raises fences to what other nodes have seen. KEYS: the fences. ARGV: the token of each.
for number, key in ipairs(KEYS) do
  local fence = redis.call('GET', key) or '0'
  -- What stands behind the number stays there.
  local last, mark = string.match(fence, '^(%d+)(.*)$')
  if tonumber(ARGV[number]) > tonumber(last) then
    redis.call('SET', key, ARGV[number] .. mark, 'PX', '86400000')
  end
end
return 1
