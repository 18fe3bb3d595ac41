-- A pool of numbers as one script, in the calling form of existing systems:
--
--   EVALSHA sha 1 {pool} ADD|DEL|REG|UNREG|CALL|HANGUP [number]
--
-- The pool is the list {pool}:idle:up and the hash {pool}:numstate. README.md beside this file explains the replies. What follows is
-- the part of allot.lua about numbers, word for word, and a test compares the two.

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

return numpool(KEYS, ARGV)
