#!lua name=allot

-- The seat search on plain sorted sets, for servers that allow no modules: one set per tier and area, member = seat,
-- score = row * 100000 + place. README.md beside this file says how to load and call it, and what its limits are.
--
--   FCALL seat_zmpop numkeys key [key ...] MIN|MAX [COUNT n] [ADJACENT [STRIDE s]]
--
-- Replies as the module's SEAT.ZMPOP: [key, [[member, score], ...]], or null where there is nothing. Without ADJACENT it is ZMPOP.
-- With it: from the first key that has them, the n best members with consecutive scores, popped in one step. A score that is a
-- multiple of the stride (100000) starts a new row, so no run goes past it; only integers between -2^53 and 2^53 count, and of equal
-- scores the lowest member.
--
--   FCALL seat_hold_adjacent numkeys holds deadlines key [key ...] token user ttl MIN|MAX [COUNT n] [STRIDE s]
--   FCALL seat_confirm 2 holds deadlines token user
--   FCALL seat_release 2 holds deadlines token user
--
-- The same search, but what it takes is held for a user and goes back where it came from when nobody confirms it within ttl
-- milliseconds. A hold is [key, [[member, score], ...], deadline]; the other two reply with the number of seats.
--
-- A sorted set knows no runs, so the search walks it from the wanted end until it has met one: its time grows with the members before
-- the first run.

local STRIDE = 100000
local EXACT = 2 ^ 53
local MAX_INT64 = '9223372036854775807'
local FIRST_PAGE, LAST_PAGE = 32, 1024
local ZREM_AT_ONCE = 4000 -- what unpack() can put on Lua's stack is limited
local DUE_AT_ONCE = 100 -- the rest waits for the next call
local LONGEST_TTL = 10 ^ 12

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

-- Holds: in the hash `holds` token -> record, in the sorted set `deadlines` token -> when it ends.

local function forget(book, token)
  redis.call('HDEL', book.holds, token)
  redis.call('ZREM', book.deadlines, token)
end

local function give_back(book, token, hold)
  for _, seat in ipairs(hold.seats) do
    redis.call('ZADD', hold.key, seat[2].double, seat[1])
  end
  forget(book, token)
end

-- The hold of this token; one that is past its deadline goes back first, and is none.
local function live_hold(book, token)
  local packed = redis.call('HGET', book.holds, token)
  local hold = packed and cmsgpack.unpack(packed)
  if hold and hold.deadline <= book.now then
    give_back(book, token, hold)
    hold = nil
  end
  return hold
end

local function open_book(keys)
  local seconds, micros = unpack(redis.call('TIME'))
  local book = { holds = keys[1], deadlines = keys[2], now = seconds * 1000 + math.floor(micros / 1000) }
  for _, token in ipairs(redis.call('ZRANGE', book.deadlines, '-inf', book.now, 'BYSCORE', 'LIMIT', 0, DUE_AT_ONCE)) do
    live_hold(book, token)
  end
  return book
end

-- A key in two roles would lose seats half way through a hold.
local function repeats(keys)
  local seen = {}
  for _, key in ipairs(keys) do
    if seen[key] then return true end
    seen[key] = true
  end
end

local function reply_of(hold)
  return { hold.key, hold.seats, hold.deadline }
end

local function seat_hold_adjacent(keys, args)
  local token, user, ttl = args[1], args[2], args[3] and positive(args[3])
  if #keys < 3 or #args < 4 then return redis.error_reply('ERR wrong number of arguments') end
  if not ttl or ttl > LONGEST_TTL then return redis.error_reply('ERR ttl is out of range') end
  if repeats(keys) then return redis.error_reply('ERR a key is given twice') end
  local want, refusal = parse { unpack(args, 4) }
  if not want then return redis.error_reply(refusal) end

  local book = open_book(keys)
  local hold = live_hold(book, token)
  if hold then
    if hold.user ~= user then return redis.error_reply('EXISTS the token is in use') end
    return reply_of(hold) -- asked again after a lost reply
  end
  for i = 3, #keys do
    local low, failure = find_run(keys[i], want)
    if failure then return failure end
    if low then
      hold = { key = keys[i], user = user, seats = take_run(keys[i], low, want), deadline = book.now + ttl }
      redis.call('HSET', book.holds, token, cmsgpack.pack(hold))
      redis.call('ZADD', book.deadlines, hold.deadline, token)
      return reply_of(hold)
    end
  end
  return nil
end

-- What ends a hold begins alike: two keys, the token and its user.
local function ending(finish)
  return function(keys, args)
    if #keys ~= 2 or #args ~= 2 then return redis.error_reply('ERR wrong number of arguments') end
    local token, user = unpack(args)
    local book = open_book(keys)
    local hold = live_hold(book, token)
    if not hold then return redis.error_reply('NOTFOUND no such hold') end
    if hold.user ~= user then return redis.error_reply('NOTOWNER the hold is of another user') end
    finish(book, token, hold)
    return #hold.seats
  end
end

redis.register_function {
  function_name = 'seat_zmpop',
  callback = seat_zmpop,
  flags = { 'allow-oom' }, -- it only removes
  description = 'ZMPOP with ADJACENT: the best members with consecutive scores',
}

redis.register_function {
  function_name = 'seat_hold_adjacent',
  callback = seat_hold_adjacent,
  description = 'Holds the best members with consecutive scores for a user until a deadline',
}

redis.register_function {
  function_name = 'seat_confirm',
  callback = ending(forget),
  flags = { 'allow-oom' },
  description = 'Sells the seats of a hold: they do not come back',
}

redis.register_function {
  function_name = 'seat_release',
  callback = ending(give_back),
  flags = { 'allow-oom' },
  description = 'Gives the seats of a hold back to the set they came from',
}
