-- What the slow paths share. KEYS: 1 lock, 2 fence, 3 marker. `left` is the marker's PTTL, which is trust check and clock
-- in one: the marker ends 2^43 ms after 2025-01-01.
-- Values: exclusive `owner|token|tail`, or `owner!token|tail` once somebody waits; `~` while readers hold, who are
-- `owner|token|tail` in a sorted set by expiry; a waiter is `inbox|attempt|kept_for|mode|tail`, where a grant that is
-- handed to it is kept for so long. The tail is `attempt|since|label`, or `attempt@actor|since|label` if it acts on
-- somebody's behalf; nothing here looks into it. The fence has a `+` in it once somebody waits.
-- So the fast paths see from what they read anyway that there may be a line; a mark too many costs them a detour, and a
-- mark is never taken away before the line was found empty.
local call = redis.call
local tag = string.sub(KEYS[2], 10)
local line, readers_key = 'fp:line:' .. tag, 'fp:readers:' .. tag
local now_ms = 8796093022208 - left
local now = now_ms * 1024
local v = call('GET', KEYS[1])
--[[NUMBERS]]

local readers = {}
if v == '~' then
  call('ZREMRANGEBYSCORE', readers_key, '-inf', digits(now_ms))
  readers = call('ZRANGE', readers_key, 0, -1)
  if #readers == 0 then
    call('DEL', KEYS[1])
    v = false
  end
end

local function owner_of(value) return string.sub(value, 1, 40) end
local function token_of(value) return string.match(value, '^%x+[|!](%d+)') end

-- The owner's own grant, if it has one.
local function mine(owner)
  if not v then return nil end
  if v ~= '~' then return owner_of(v) == owner and v or nil end
  for _, reader in ipairs(readers) do
    if owner_of(reader) == owner then return reader end
  end
  return nil
end

local function admits(mode) return not v or (mode == 's' and v == '~') end

local function grant(owner, token, mode, life, tail)
  if mode == 'x' then
    v = owner .. (call('EXISTS', line) == 1 and '!' or '|') .. token .. '|' .. tail
    call('SET', KEYS[1], v, 'PX', life)
  else
    local value = owner .. '|' .. token .. '|' .. tail
    -- One grant per owner.
    local others = {value}
    for _, reader in ipairs(readers) do
      if owner_of(reader) == owner then call('ZREM', readers_key, reader) else others[#others + 1] = reader end
    end
    readers = others
    call('ZADD', readers_key, digits(now_ms + life), value)
    local rest = v and call('PTTL', KEYS[1]) or 0
    v = '~'
    call('SET', KEYS[1], v, 'PX', digits(math.max(rest, life)))
    call('PEXPIRE', readers_key, digits(math.max(rest, life)))
  end
  if tonumber(token) > last then set_last(tonumber(token)) end
end

-- Takes a grant away without handing over.
local function drop(value)
  if v ~= '~' then
    call('DEL', KEYS[1])
    v = false
    return
  end
  call('ZREM', readers_key, value)
  local kept = {}
  for _, reader in ipairs(readers) do
    if reader ~= value then kept[#kept + 1] = reader end
  end
  readers = kept
  if #readers == 0 then
    call('DEL', KEYS[1], readers_key)
    v = false
  end
end

-- Prolongs a grant; never shortens it. It always writes, so that a WAIT behind it answers for a grant of another link.
local function prolong(value, life)
  call('PEXPIRE', KEYS[1], digits(math.max(call('PTTL', KEYS[1]), life)))
  if v == '~' then
    call('ZADD', readers_key, 'GT', digits(now_ms + life), value)
    if call('PTTL', readers_key) < life then call('PEXPIRE', readers_key, life) end
  end
end

local function waiter_key(owner) return line .. ':' .. owner end

local function leave_line(owner)
  if call('ZREM', line, owner) == 1 then call('DEL', waiter_key(owner)) end
end

-- The lowest ticket whose owner was heard of in time; clears away those before it.
local function live_head()
  while true do
    local first = call('ZRANGE', line, 0, 0, 'WITHSCORES')
    if not first[1] then
      crowded = false
      return nil
    end
    local waiter = call('GET', waiter_key(first[1]))
    if waiter then return first[1], tonumber(first[2]), waiter end
    call('ZREM', line, first[1])
  end
end

-- Leaves word for the fast paths that somebody waits.
local function mark()
  if not crowded then
    crowded = true
    set_last(last)
  end
  -- Only on a value of ours: another library compares the whole of its own.
  if v and string.match(v, '^%x+()|%d+|') == 41 then
    v = string.sub(v, 1, 40) .. '!' .. string.sub(v, 42)
    call('SET', KEYS[1], v, 'KEEPTTL')
  end
end

-- Joins the line or keeps the place; the ticket 0 is for the next one, behind all in line. False: the line is full.
local function join(owner, ticket, lease, kept_for, inbox, attempt, mode, tail)
  local old = call('GET', waiter_key(owner))
  if old then
    local seen = tonumber(string.match(old, '^[^|]*|(%d+)'))
    if seen > tonumber(attempt) then attempt = digits(seen) end
  elseif call('ZCARD', line) >= 10000 then
    return false
  end
  if ticket == '0' then
    local tail = call('ZRANGE', line, -1, -1, 'WITHSCORES')
    ticket = digits(math.max(now, tail[2] and tonumber(tail[2]) + 1 or 0))
  end
  call('ZADD', line, 'NX', ticket, owner)
  call('SET', waiter_key(owner), inbox .. '|' .. attempt .. '|' .. kept_for .. '|' .. mode .. '|' .. tail, 'PX', lease)
  call('PEXPIRE', line, '86400000')
  mark()
  return true
end

-- Gives the free lock to the lowest live ticket under the passed token, and tells it. Nobody listens at its inbox:
-- that process is gone, the next ticket's turn.
local function hand_over(pass)
  while true do
    local owner, _, waiter = live_head()
    if not owner then return end
    local inbox, attempt, kept_for, mode, tail = string.match(waiter, '^([^|]*)|(%d+)|(%d+)|([xs])|(.*)$')
    if not admits(mode) then return end
    local token = token_to_pass(pass)
    local word = token and ('G ' .. owner .. ' ' .. token .. ' ' .. attempt) or ('W ' .. owner)
    if call('PUBLISH', inbox, word) == 0 then
      leave_line(owner)
    elseif token then
      leave_line(owner)
      -- It holds since now; its tail says since when it waits.
      local at, label = string.match(tail, '^([^|]*|)%d+(|.*)$')
      if at then tail = at .. digits(now_ms) .. label end
      grant(owner, token, mode, tonumber(kept_for), tail)
    else
      return
    end
  end
end

-- Takes the lock, or joins the queue, or hands over to the first waiter. `value` is the value of the lock under `number`, and
-- `rest` is `mode|turn|unify|ticket|lease|kept_for|inbox|attempt`. The replies are those of acquire.lua.
local function acquire(value, number, ttl, rest)
  local owner, tail = owner_of(value), string.sub(value, 43 + #number)
  local mode, turn, unify, ticket, lease, kept_for, inbox, attempt =
    string.match(rest, '^(.)|(.)|(.)|(%d+)|(%d+)|(%d+)|([^|]*)|(%d+)$')
  ttl = tonumber(ttl)
  local own = mine(owner)
  if own then
    local stored = token_of(own)
    if unify == '1' and not mints and stored ~= number then
      local token = token_for(number)
      if not token then return stale() end
      -- As what it is by now: a writer that became a reader does not write again because this was late.
      grant(owner, token, v == '~' and 's' or 'x', ttl, tail)
      return 1
    end
    prolong(own, ttl)
    spend(number)
    return {1, stored}
  end
  local token = token_for(number)
  if not token then return stale() end
  local head, head_ticket = live_head()
  local first = not head or turn == 'O'
  if not first and turn == 'L' then
    local place = tonumber(ticket)
    first = owner == head or (place > 0 and (place < head_ticket or (place == head_ticket and owner < head)))
  end
  if first and admits(mode) then
    leave_line(owner)
    will_spend(number)
    grant(owner, token, mode, ttl, tail)
    if mode == 's' then
      -- A reader was let in: the reader behind it may follow.
      local next_owner, _, waiter = live_head()
      if next_owner then
        local next_inbox, next_mode = string.match(waiter, '^([^|]*)|%d+|%d+|([xs])|')
        if admits(next_mode) then call('PUBLISH', next_inbox, 'W ' .. next_owner) end
      end
    end
    return mints and {1, token} or 1
  end
  local place
  if turn == 'L' then
    if not join(owner, ticket, lease, kept_for, inbox, attempt, mode, tail) then return {3} end
    spend(number)
    -- The lock may be free, its holder gone without a release: whoever asks wakes the line.
    place = digits(tonumber(call('ZSCORE', line, owner)))
    hand_over(number)
  end
  local shown = v or ''
  if v == '~' then shown = '~' .. readers[1] end
  return {0, shown, digits(last), v and call('PTTL', KEYS[1]) or 0, place}
end
