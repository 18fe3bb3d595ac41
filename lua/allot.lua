#!lua name=allot

-- Seats and numbers on plain Redis types, for servers that allow no modules. README.md beside this file explains how to load and call
-- the library, and its limits.
--
-- Seats are sorted sets, one per tier and area: member = seat, score = row * 100000 + place.
--
--   FCALL seat_zmpop numkeys key [key ...] MIN|MAX [COUNT n] [ADJACENT [STRIDE s]]
--
-- Replies like the module's SEAT.ZMPOP: [key, [[member, score], ...]], or null if there is no such run. Without ADJACENT the function
-- is ZMPOP. With ADJACENT it pops, in one step, the n best members with consecutive scores from the first key that has such a run. A
-- score that is a multiple of the stride (100000) starts a new row, so no run goes past such a score. Only integers between -2^53 and
-- 2^53 count, and of members with equal scores only the lowest one.
--
--   FCALL seat_hold_adjacent numkeys holds deadlines key [key ...] token user ttl MIN|MAX [COUNT n] [STRIDE s]
--   FCALL seat_confirm 2 holds deadlines token user
--   FCALL seat_release 2 holds deadlines token user
--
-- The same search, but the seats are held for a user, and return to their sorted set if the hold is not confirmed within ttl
-- milliseconds. A hold is [key, [[member, score], ...], deadline]; the other two functions reply with the number of seats.
--
-- A sorted set has no index of runs, so the search walks the set from the wanted end to the first run: its time grows with the number
-- of members before that run.
--
-- A pool of numbers is a list of the numbers that are idle and up, idle longest first, and a hash
-- number -> {"callstate":0|1,"regstate":0|1}: 0 idle, 1 busy; 0 down, 1 up.
--
--   FCALL numpool_add 2 {pool}:idle:up {pool}:numstate number [number ...]
--   FCALL numpool_del 2 {pool}:idle:up {pool}:numstate number [number ...]
--   FCALL numpool_reg 2 {pool}:idle:up {pool}:numstate number [number ...]
--   FCALL numpool_unreg 2 {pool}:idle:up {pool}:numstate number [number ...]
--   FCALL numpool_call 2 {pool}:idle:up {pool}:numstate [number]
--   FCALL numpool_hangup 2 {pool}:idle:up {pool}:numstate number
--   FCALL numpool 1 {pool} ADD|DEL|REG|UNREG|CALL|HANGUP [number]
--   FCALL_RO numpool_get 2 {pool}:idle:up {pool}:numstate number
--   FCALL_RO numpool_info 2 {pool}:idle:up {pool}:numstate
--
-- The first four reply with the number of numbers that were new, were there, came up, went down; call with the number that the caller
-- now has, or null if none is free; hangup with 1. To remove a number from the middle of a list takes a walk: the time of del, unreg
-- and call of a certain number grows with the pool, unless the number is near an end of the list.

-- Seats: the arguments of a search.

local STRIDE = 100000
local EXACT = 2 ^ 53
local MAX_INT64 = '9223372036854775807'
local FIRST_PAGE, LAST_PAGE = 32, 1024
local ZREM_AT_ONCE = 4000 -- unpack() can put a limited number of values on Lua's stack
local DUE_AT_ONCE = 100 -- the rest waits for the next call
local LONGEST_TTL = 10 ^ 12

-- A count in the form of ZMPOP: digits only, no sign, no leading zero, at most 64 bits.
local function positive(text)
  local fits = #text < #MAX_INT64 or (#text == #MAX_INT64 and text <= MAX_INT64)
  return fits and text:find('^[1-9]%d*$') and tonumber(text)
end

local function mentions(args, word)
  for i = 2, #args do
    if args[i]:upper() == word then return true end
  end
end

-- MIN|MAX and the options, checked in the order of ZMPOP and refused with its error texts.
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

-- The lowest score of the best run, or nil; an error reply comes back as the second value. The walk follows
-- scores only: a run is a last score and a length, so it may begin in one page and end in another.
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

-- Seats: holds. The hash `holds` maps a token to its record, the sorted set `deadlines` maps a token to the end of its hold.

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

-- The hold of this token, or nil. The seats of a hold past its deadline return to their set first; the result is nil then.
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

-- The common part of the functions that end a hold: two keys, the token and its user.
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

-- Numbers: the effect of an event on a number in each state, as the next state or a refusal. A number that becomes idle+up joins the
-- queue at its tail, and a number that is no longer idle+up leaves the queue. In addition, a call drops entries that are not idle+up.

local CELLS = {
  nodata = { ADD = 'idle+down', DEL = 'nodata', REG = 'NOTFOUND', UNREG = 'NOTFOUND', CALL = 'NOTFOUND', HANGUP = 'NOTFOUND' },
  ['idle+up'] = { ADD = 'idle+up', DEL = 'nodata', REG = 'idle+up', UNREG = 'idle+down', CALL = 'busy+up', HANGUP = 'BADSTATE' },
  ['idle+down'] = { ADD = 'idle+down', DEL = 'nodata', REG = 'idle+up', UNREG = 'idle+down', CALL = 'BADSTATE', HANGUP = 'BADSTATE' },
  ['busy+up'] = { ADD = 'busy+up', DEL = 'nodata', REG = 'busy+up', UNREG = 'busy+down', CALL = 'BADSTATE', HANGUP = 'idle+up' },
  ['busy+down'] = { ADD = 'busy+down', DEL = 'nodata', REG = 'busy+up', UNREG = 'busy+down', CALL = 'BADSTATE', HANGUP = 'idle+down' },

  -- A record that cannot be read may mean anything, even a call in progress, so it can only be deleted.
  unreadable = { ADD = 'unreadable', DEL = 'nodata', REG = 'BADSTATE', UNREG = 'BADSTATE', CALL = 'BADSTATE', HANGUP = 'BADSTATE' },
}

local WANTED = { CALL = 'idle+up', HANGUP = 'busy' } -- the required state in the text of a refusal

-- Records exactly as existing systems write them.
local RECORDS = {
  ['idle+up'] = '{"callstate":0,"regstate":1}',
  ['idle+down'] = '{"callstate":0,"regstate":0}',
  ['busy+up'] = '{"callstate":1,"regstate":1}',
  ['busy+down'] = '{"callstate":1,"regstate":0}',
}
local STATES = {
  [RECORDS['idle+up']] = 'idle+up',
  [RECORDS['idle+down']] = 'idle+down',
  [RECORDS['busy+up']] = 'busy+up',
  [RECORDS['busy+down']] = 'busy+down',
}
local BITS = { [0] = 0, [1] = 1, ['0'] = 0, ['1'] = 1, [false] = 0, [true] = 1 }
local NAMES = { [0] = { [0] = 'idle+down', [1] = 'idle+up' }, [1] = { [0] = 'busy+down', [1] = 'busy+up' } }

local LONGEST_NUMBER = 32
local NUMBERS_AT_ONCE = 4000 -- as ZREM_AT_ONCE
local NEAR = 64 -- within this distance of the queue's tail, a search costs far less than a walk from its head
local SWEEP_FROM = 32 -- from this number of walks on, it costs less to write the whole queue again
local STALE_AT_ONCE = 10000 -- the rest waits for the next call

local function is_number(text)
  return #text <= LONGEST_NUMBER and text:find('^[0-9+*#]+$')
end

-- A client's bytes in the form for an error message.
local function quoted(bytes)
  local shown = bytes:sub(1, 80):gsub('[^\32-\126]', function(byte)
    return ('\\x%02x'):format(byte:byte())
  end)
  return "'" .. shown .. (#bytes > 80 and "...'" or "'")
end

-- The state in a record, and the record's fields if the record is not exactly in this library's form.
local function read(record)
  if not record then return 'nodata' end
  if STATES[record] then return STATES[record] end
  local sound, fields = pcall(cjson.decode, record)
  if not sound or type(fields) ~= 'table' then return 'unreadable' end
  local call, reg = BITS[fields.callstate], BITS[fields.regstate]
  return call and reg and NAMES[call][reg] or 'unreadable', fields
end

-- The record of the next state. Fields of other programs in the record stay exactly as they are: only the two digits are replaced.
-- If that cannot be done (a text inside looks like a field), the record is written in this library's form.
local function rewritten(record, to)
  if not record or STATES[record] then return RECORDS[to] end
  local _, fields = read(record)
  local ours = cjson.decode(RECORDS[to])
  local foreign = false
  for name in pairs(fields) do
    foreign = foreign or ours[name] == nil
  end
  if not foreign then return RECORDS[to] end
  for name, bit in pairs(ours) do
    if BITS[fields[name]] ~= bit then
      record = record:gsub('("' .. name .. '"%s*:%s*)[^,}%s]+', '%1' .. bit, 1)
    end
  end
  return read(record) == to and record or RECORDS[to]
end

-- Calls a command with a long list of arguments, as many at once as fit.
local function in_parts(command, key, list)
  for i = 1, #list, NUMBERS_AT_ONCE do
    redis.call(command, key, unpack(list, i, math.min(i + NUMBERS_AT_ONCE - 1, #list)))
  end
end

local function records_of(pool, numbers)
  if #numbers == 1 then return { redis.call('HGET', pool.numstate, numbers[1]) } end
  local records = {}
  for i = 1, #numbers, NUMBERS_AT_ONCE do
    local last = math.min(i + NUMBERS_AT_ONCE - 1, #numbers)
    for j, record in ipairs(redis.call('HMGET', pool.numstate, unpack(numbers, i, last))) do
      records[i + j - 1] = record
    end
  end
  return records
end

-- A number that has just come up or hung up is near the tail; for every other number the removal walks from the head.
local function leave_queue(pool, number)
  local near_tail = redis.call('LPOS', pool.queue, number, 'RANK', -1, 'MAXLEN', NEAR)
  redis.call('LREM', pool.queue, near_tail and -1 or 1, number)
end

-- Rewrites the queue once, without these numbers.
local function sweep_queue(pool, numbers)
  local leaving = {}
  for _, number in ipairs(numbers) do
    leaving[number] = true
  end
  local left = redis.call('LLEN', pool.queue)
  while left > 0 do
    local page = redis.call('LPOP', pool.queue, math.min(left, NUMBERS_AT_ONCE))
    local staying = {}
    for _, number in ipairs(page) do
      if not leaving[number] then staying[#staying + 1] = number end
    end
    in_parts('RPUSH', pool.queue, staying)
    left = left - #page
  end
end

-- The queue comes first, here and below: if its key holds another type, nothing has been changed yet.
local function apply_one(pool, change)
  local number, to = change.number, change.to
  if change.from == 'idle+up' then leave_queue(pool, number) end
  if to == 'idle+up' then redis.call('RPUSH', pool.queue, number) end
  if to == 'nodata' then
    redis.call('HDEL', pool.numstate, number)
  else
    redis.call('HSET', pool.numstate, number, rewritten(change.record, to))
  end
end

local function apply_many(pool, changes)
  local leaving, joining, gone, stored = {}, {}, {}, {}
  for _, change in ipairs(changes) do
    local number, to = change.number, change.to
    if change.from == 'idle+up' then leaving[#leaving + 1] = number end
    if to == 'idle+up' then joining[#joining + 1] = number end
    if to == 'nodata' then
      gone[#gone + 1] = number
    else
      stored[#stored + 1] = number
      stored[#stored + 1] = rewritten(change.record, to)
    end
  end
  if #leaving >= SWEEP_FROM then
    sweep_queue(pool, leaving)
  else
    for _, number in ipairs(leaving) do
      leave_queue(pool, number)
    end
  end
  in_parts('RPUSH', pool.queue, joining)
  in_parts('HDEL', pool.numstate, gone)
  in_parts('HSET', pool.numstate, stored)
end

local function refusal_of(event, number, state, record)
  local text
  if state == 'nodata' then
    text = ('NOTFOUND number %s is not in the pool'):format(number)
  elseif state == 'unreadable' then
    text = ('BADSTATE number %s has an unreadable state, %s'):format(number, quoted(record))
  else
    text = ('BADSTATE number %s is %s, not %s'):format(number, state, WANTED[event])
  end
  return redis.error_reply(text)
end

-- The changes by an event; or, as the second value, the refusal of the first number that is refused. A number given twice counts once.
-- A switch registers the numbers of its list that are in the pool: it is refused only if none is.
local function decide(pool, event, numbers)
  local changes, seen, missing, known = {}, {}, {}, false
  local records = records_of(pool, numbers)
  for i, number in ipairs(numbers) do
    local record = records[i]
    local from = read(record)
    local to = CELLS[from][event]
    if from == 'nodata' and (event == 'REG' or event == 'UNREG') then
      if not seen[number] then missing[#missing + 1] = number end
      seen[number] = true
    elseif not CELLS[to] then
      return nil, refusal_of(event, number, from, record)
    else
      known = true
      if to ~= from and not seen[number] then
        seen[number] = true
        changes[#changes + 1] = { number = number, from = from, to = to, record = record }
      end
    end
  end
  if known then return changes end
  if #missing == 1 then return nil, refusal_of(event, missing[1], 'nodata') end
  local text = 'NOTFOUND none of the numbers %s to %s is in the pool'
  return nil, redis.error_reply(text:format(missing[1], missing[#missing]))
end

-- The pool; or, as the second value, the error of the call.
local function open_pool(keys, args, least, most)
  if #keys ~= 2 or #args < least or #args > (most or #args) then return nil, redis.error_reply('ERR wrong number of arguments') end
  if keys[1] == keys[2] then return nil, redis.error_reply('ERR a key is given twice') end
  for _, number in ipairs(args) do
    if not is_number(number) then
      return nil, redis.error_reply('ERR number ' .. quoted(number) .. ' is not 1 to 32 characters of 0-9 + * #')
    end
  end
  return { queue = keys[1], numstate = keys[2] }
end

-- The function of an event. `reply` computes the reply from the given numbers and the number of changes.
local function on(event, most, reply)
  return function(keys, args)
    local pool, wrong = open_pool(keys, args, 1, most)
    if not pool then return wrong end
    local changes, refusal = decide(pool, event, args)
    if not changes then return refusal end
    if #changes == 1 then
      apply_one(pool, changes[1])
    else
      apply_many(pool, changes)
    end
    return reply(args, #changes)
  end
end

local function how_many(_, changed)
  return changed
end

local call_number = on('CALL', 1, function(numbers)
  return numbers[1]
end)

-- Takes the number that is idle longest. The queue may be wrong: entries that are not idle+up, left there by other scripts,
-- are dropped on the way. A queue full of them is cleaned over several calls.
local function call_head(keys)
  local pool, wrong = open_pool(keys, {}, 0, 0)
  if not pool then return wrong end
  for _ = 1, STALE_AT_ONCE do
    local number = redis.call('LPOP', pool.queue)
    if not number then return nil end
    local record = redis.pcall('HGET', pool.numstate, number)
    if type(record) == 'table' then -- the key holds another type
      redis.call('LPUSH', pool.queue, number)
      return record
    end
    if read(record) == 'idle+up' and is_number(number) then
      redis.call('HSET', pool.numstate, number, rewritten(record, CELLS['idle+up'].CALL))
      return number
    end
  end
  local text = 'BADSTATE the queue began with %d entries that are not idle+up; they are dropped, call again'
  return redis.error_reply(text:format(STALE_AT_ONCE))
end

local function numpool_call(keys, args)
  return (#args == 0 and call_head or call_number)(keys, args)
end

local EVENTS = {
  ADD = on('ADD', nil, how_many),
  DEL = on('DEL', nil, how_many),
  REG = on('REG', nil, how_many),
  UNREG = on('UNREG', nil, how_many),
  CALL = numpool_call,
  HANGUP = on('HANGUP', 1, function()
    return 1
  end),
}

-- The calling form of existing systems: one key, from whose name those of the list and the hash follow, an event, and a number.
local function numpool(keys, args)
  if #keys ~= 1 or #args < 1 then return redis.error_reply('ERR wrong number of arguments') end
  local event = EVENTS[args[1]:upper()]
  if not event then return redis.error_reply('ERR event ' .. quoted(args[1]) .. ' is not ADD, DEL, REG, UNREG, CALL or HANGUP') end
  return event({ keys[1] .. ':idle:up', keys[1] .. ':numstate' }, { unpack(args, 2) })
end

-- The end of the part that is also a script: numpool.sh prints it.

local function numpool_get(keys, args)
  local pool, wrong = open_pool(keys, args, 1, 1)
  if not pool then return wrong end
  local record = redis.call('HGET', pool.numstate, args[1])
  local state = read(record)
  if not RECORDS[state] then return refusal_of('GET', args[1], state, record) end
  return state
end

local function numpool_info(keys, args)
  local pool, wrong = open_pool(keys, args, 0, 0)
  if not pool then return wrong end
  local found = { ['idle+up'] = 0, ['idle+down'] = 0, ['busy+up'] = 0, ['busy+down'] = 0, unreadable = 0 }
  local cursor = '0'
  repeat
    local page
    cursor, page = unpack(redis.call('HSCAN', pool.numstate, cursor, 'COUNT', NUMBERS_AT_ONCE))
    for i = 2, #page, 2 do
      local state = read(page[i])
      found[state] = found[state] + 1
    end
  until cursor == '0'
  -- An unreadable record counts only in the total.
  local counts = { total = redis.call('HLEN', pool.numstate) }
  for _, state in ipairs { 'idle+up', 'idle+down', 'busy+up', 'busy+down' } do
    counts[(state:gsub('%+', '_'))] = found[state]
  end
  return { map = counts }
end

-- The registered functions: name, function, flags, description.
local FUNCTIONS = {
  { 'seat_zmpop', seat_zmpop, { 'allow-oom' }, 'ZMPOP with ADJACENT: the best members with consecutive scores' }, -- it only removes
  { 'seat_hold_adjacent', seat_hold_adjacent, {}, 'Holds the best members with consecutive scores for a user until a deadline' },
  { 'seat_confirm', ending(forget), { 'allow-oom' }, 'Sells the seats of a hold' },
  { 'seat_release', ending(give_back), { 'allow-oom' }, 'Returns the seats of a hold to their sorted set' },
  { 'numpool_add', EVENTS.ADD, {}, 'Adds numbers to a pool, idle and down' },
  { 'numpool_del', EVENTS.DEL, { 'allow-oom' }, 'Removes numbers from a pool, in any state' }, -- it frees
  { 'numpool_reg', EVENTS.REG, {}, 'Registers the given numbers that the pool has' },
  { 'numpool_unreg', EVENTS.UNREG, { 'allow-oom' }, 'Unregisters the given numbers that the pool has' },
  { 'numpool_call', EVENTS.CALL, {}, 'Takes a number for a call: the given one, or the one that is idle longest' },
  { 'numpool_hangup', EVENTS.HANGUP, { 'allow-oom' }, 'Returns a number when its call has ended' },
  -- Three events free, and a full memory must not stop them.
  { 'numpool', numpool, { 'allow-oom' }, 'The events of a number pool in the calling form of existing systems: EVENT [number]' },
  { 'numpool_get', numpool_get, { 'no-writes' }, 'The state of a number' },
  { 'numpool_info', numpool_info, { 'no-writes' }, 'Counts the numbers of a pool in each state; reads all of them' },
}

for i = 1, #FUNCTIONS do
  local name, callback, flags, description = FUNCTIONS[i][1], FUNCTIONS[i][2], FUNCTIONS[i][3], FUNCTIONS[i][4]
  redis.register_function { function_name = name, callback = callback, flags = flags, description = description }
end
