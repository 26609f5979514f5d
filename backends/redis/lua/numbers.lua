-- What all layouts share: the last token of a lock, and which numbers of clients fit. KEYS: 2 fence; `now` is the node's time
-- as a token. The fence is the last token; then a `+` if there may be a line; then, where the server mints, a `|` and the
-- highest bound that is spent.
local mints = --[[MINTS]]
local function digits(number) return string.format('%.0f', number) end
local digits_of_last, plus, digits_of_spent = string.match(call('GET', KEYS[2]) or '0', '^(%d+)(%+?)|?(%d*)$')
local last, crowded, spent = tonumber(digits_of_last), plus == '+', tonumber(digits_of_spent) or 0

local function set_last(token)
  last = token
  call('SET', KEYS[2], digits(token) .. (crowded and '+' or '') .. (spent > 0 and '|' .. digits(spent) or ''), 'PX', '86400000')
end

-- A number of a client may lie this far ahead of the node's clock, or a few steps beyond what is remembered.
local function below_ceiling(number, known) return number <= now + 10240000 or number <= known + 16 end
local function may_be_spent(bound) return bound > spent and below_ceiling(bound, spent) end
local function minted() return digits(math.max(last + 1, now)) end

-- The token of a grant that a client asks for with this number, a bound where the server mints; nil: it does not fit.
local function token_for(number)
  local asked = tonumber(number)
  if mints then return may_be_spent(asked) and asked + 10240000 >= now and minted() or nil end
  return asked > last and asked >= now and below_ceiling(asked, last) and number or nil
end

-- The same for the next in line. Where the server mints, a late end of a claim does not make it wait.
local function token_to_pass(number) return mints and minted() or token_for(number) end
local function stale() return {2, digits(mints and spent or last), digits(now)} end

-- No request with this bound or a lower one is new any more.
local function spend(number)
  local bound = mints and tonumber(number)
  if bound and may_be_spent(bound) then
    spent = bound
    set_last(last)
  end
end

-- The same for a grant, which writes the fence itself.
local function will_spend(number)
  if mints then spent = tonumber(number) end
end

-- A claim has ended that proposed numbers up to this one.
local function raise(number)
  if not number then return end
  if mints then
    spend(number)
  elseif number > last and below_ceiling(number, last) then
    set_last(number)
  end
end

-- An evicted holder may still renew: its token is not the last one from here on.
local function raise_above_evicted(number)
  if not mints then return raise(tonumber(number)) end
  if last > 0 then set_last(last + 1) end
end

-- A value `owner|number|tail` with the token that was granted in the place of the number.
local function with_token(value, number, token)
  return string.sub(value, 1, 41) .. token .. string.sub(value, 42 + #number)
end
