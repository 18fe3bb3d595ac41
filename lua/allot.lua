#!lua name=allot

-- The seat search on plain sorted sets, for servers that allow no modules.
--
--   FCALL seat_zmpop numkeys key [key ...] MIN|MAX [COUNT n] [ADJACENT [STRIDE s]]
--
-- Replies as the module's SEAT.ZMPOP: [key, [[member, score], ...]], or null where there is nothing. Without ADJACENT it is ZMPOP.
-- With it: from the first key that has them, the n best members with consecutive scores, popped in one step. A score that is a
-- multiple of the stride (100000) starts a new row, so no run goes past it; only integers between -2^53 and 2^53 count, and of equal
-- scores the lowest member.
--
-- A sorted set knows no runs, so the search walks it from the wanted end until it has met one: time grows with the members before
-- the first run, and this is what the module's SEAT.HOLD does not pay. README.md beside this file has the limits.

local STRIDE = 100000
local EXACT = 2 ^ 53
local MAX_INT64 = '9223372036854775807'
local FIRST_PAGE, LAST_PAGE = 32, 1024
local ZREM_AT_ONCE = 4000 -- what unpack() can put on Lua's stack is limited

-- What ZMPOP takes as a count: digits alone, no sign, no leading zero, at most 64 bits.
local function positive(text)
  local fits = #text < #MAX_INT64 or (#text == #MAX_INT64 and text <= MAX_INT64)
  return fits and text:find('^[1-9]%d*$') and tonumber(text)
end

local function mentions(args, word)
  for i = 2, #args do
    if args[i]:upper() == word then return true end
  end
end

-- MIN|MAX and the options, checked in the order and refused in the words of ZMPOP.
local function parse(args)
  local from = args[1]:upper()
  if from ~= 'MIN' and from ~= 'MAX' then return nil, 'ERR syntax error' end
  local given = {}
  local i = 2
  while i <= #args do
    local word, value = args[i]:upper(), args[i + 1]
    if given[word] then return nil, 'ERR syntax error' end
    if word == 'ADJACENT' then
      given[word] = true
      i = i + 1
    elseif (word == 'COUNT' or word == 'STRIDE') and value then
      given[word] = positive(value)
      if not given[word] then return nil, 'ERR ' .. word:lower() .. ' should be greater than 0' end
      i = i + 2
    else
      return nil, 'ERR syntax error'
    end
  end
  return { max = from == 'MAX', count = given.COUNT or 1, stride = given.STRIDE or STRIDE }
end

-- The lowest score of the best run, or nil; an error reply comes back as the second value. Only scores are followed here: a run is
-- a last score and a length, whatever the page it began in.
local function find_run(key, want)
  local step = want.max and -1 or 1
  local reach = step * (want.count - 1)
  local lowest, highest = -EXACT - math.min(reach, 0), EXACT - math.max(reach, 0) -- a run that begins between them ends there too
  local max, count, stride = want.max, want.count, want.stride
  local last, length = 0 / 0, 0 -- not a number: follows nothing
  local from, size = 0, FIRST_PAGE
  while true do
    local to = from + size - 1
    local page = max and redis.pcall('ZRANGE', key, from, to, 'REV', 'WITHSCORES')
      or redis.pcall('ZRANGE', key, from, to, 'WITHSCORES')
    if page.err then return nil, page end
    for i = 2, #page, 2 do
      local score = page[i] + 0
      if score == last + step and (max and last or score) % stride ~= 0 then
        last, length = score, length + 1
      elseif score ~= last and score % 1 == 0 then
        if score > lowest and score < highest then last, length = score, 1 end
      end
      if length == count then return max and last or last - reach end
    end
    if #page < 2 * size then return nil end
    from = to + 1
    size = math.min(2 * size, LAST_PAGE)
  end
end

-- Takes the run of `count` scores from `low` upwards out of the set: the lowest member of each score, in the order they are popped.
local function take_run(key, low, want)
  local count = want.count
  local page = redis.call('ZRANGE', key, low, low + count - 1, 'BYSCORE', 'WITHSCORES')
  local members, taken, found = {}, {}, 0
  for i = 1, #page, 2 do
    local score = page[i + 1] + 0
    if score == low + found then
      found = found + 1
      members[found] = page[i]
      taken[want.max and count + 1 - found or found] = { page[i], { double = score } }
    end
  end
  for i = 1, count, ZREM_AT_ONCE do
    redis.call('ZREM', key, unpack(members, i, math.min(i + ZREM_AT_ONCE - 1, count)))
  end
  return taken
end

local function zmpop(keys, args)
  local call = { 'ZMPOP', tostring(#keys), unpack(keys) }
  for _, arg in ipairs(args) do
    call[#call + 1] = arg
  end
  redis.setresp(3) -- scores as doubles; a RESP2 client still gets them as strings
  return redis.pcall(unpack(call))
end

local function seat_zmpop(keys, args)
  if not mentions(args, 'ADJACENT') then
    return zmpop(keys, args)
  end
  if #keys == 0 then return redis.error_reply('ERR numkeys should be greater than 0') end
  local want, refusal = parse(args)
  if not want then return redis.error_reply(refusal) end
  for _, key in ipairs(keys) do
    local low, failure = find_run(key, want)
    if failure then return failure end
    if low then return { key, take_run(key, low, want) } end
  end
  return nil
end

redis.register_function {
  function_name = 'seat_zmpop',
  callback = seat_zmpop,
  flags = { 'allow-oom' }, -- it only removes
  description = 'ZMPOP with ADJACENT: the best members with consecutive scores',
}
