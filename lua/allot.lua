#!lua name=allot

-- Seats and numbers on plain Redis types, for servers that allow no modules. README.md beside this file explains how to load and call
-- the library, and its limits.
--
-- A show is created from a plan as the module's SEAT.CREATE takes it:
--
--   FCALL seat_create 1 show plan
--   FCALL seat_hold 1 show user count TTL ms TOKEN token [TIER tier]
--   FCALL seat_confirm 1 show token [order]
--   FCALL seat_release 1 show token
--   FCALL seat_refund 1 show token
--   FCALL_RO seat_order 1 show order
--
-- Existing systems keep seats in sorted sets, one per tier and area: member = seat, score = row * 100000 + place.
--
--   FCALL seat_zmpop numkeys key [key ...] MIN|MAX [COUNT n] [ADJACENT [STRIDE s]]
--
-- Replies like the module's SEAT.ZMPOP: [key, [[member, score], ...]], or null if there is no such run. Without ADJACENT the function
-- is ZMPOP. With ADJACENT it pops, in one step, the n best members with consecutive scores from the first key that has such a run. A
-- score that is a multiple of the stride (100000) starts a new row, so no run goes past such a score. Only integers between -2^53 and
-- 2^53 count, and of members with equal scores only the lowest one.
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

-- A client's bytes in the form for an error message.
local function quoted(bytes)
  local shown = bytes:sub(1, 80):gsub('[^\32-\126]', function(byte)
    return ('\\x%02x'):format(byte:byte())
  end)
  return "'" .. shown .. (#bytes > 80 and "...'" or "'")
end

-- Seats: a show. It is created from a plan as the module's SEAT.CREATE takes it, and a hold chooses as SEAT.HOLD does without options.
--
-- A strip is the seats of one tier in a row: a text of 1 for each position that is free, and 0 for the others. The strips of a tier in
-- an area are a bucket. Its index says, for each length up to LENGTHS, which rows have a run of exactly this length (EXACTLY), and which
-- have one at least as long (AT_LEAST): so BITPOS finds the first row with a run, and two of them the first row in which a party can be
-- seated without leaving a single seat. Areas of a tier are a sorted set by priority and last turn.

local MOST_TOGETHER, LENGTHS = 10, 12
local EXACTLY, AT_LEAST = 0, LENGTHS
local TURNS = 2 ^ 40
local LARGEST_PRIORITY = 2 ^ 10
local SOLD_OUT = 2 ^ 52

-- The lengths of the runs of a strip, as a set, up to LENGTHS, and the longest.
local function lengths_of(strip)
  local lengths, longest = {}, 0
  for run in strip:gmatch('1+') do
    local length = math.min(#run, LENGTHS)
    lengths[length] = true
    if length > longest then longest = length end
  end
  return lengths, longest
end

-- Where the bits of a kind and a length begin in an index of so many rows.
local function section(kind, length, rows)
  return (kind + length - 1) * math.ceil(rows / 8) * 8
end

-- The changes of an index that follow from a changed strip of a row, as arguments of BITFIELD.
local function reindexed(bits, row, rows, old, new)
  local had, longest_before = lengths_of(old)
  local has, longest = lengths_of(new)
  local function put(kind, length, bit)
    local at = #bits
    bits[at + 1], bits[at + 2], bits[at + 3], bits[at + 4] = 'SET', 'u1', section(kind, length, rows) + row, bit
  end
  for length = 1, LENGTHS do
    if had[length] ~= has[length] then put(EXACTLY, length, has[length] and 1 or 0) end
  end
  for length = math.min(longest, longest_before) + 1, math.max(longest, longest_before) do
    put(AT_LEAST, length, longest > longest_before and 1 or 0)
  end
  return bits
end

local function turns_key(show, tier)
  return show .. ':turns' .. (tier and ':' .. tier or '')
end

local function bucket_key(show, area, tier, what)
  return show .. ':' .. what .. ':' .. area .. ':' .. tier
end

-- Puts another strip in the place of a row's.
local function put_strip(show, place, old, new)
  redis.call('HSET', bucket_key(show, place.area, place.tier, 'strips'), place.row, new)
  local bits = reindexed({}, place.row, place.rows, old, new)
  if #bits > 0 then redis.call('BITFIELD', bucket_key(show, place.area, place.tier, 'index'), unpack(bits)) end
end

-- The first row of a bucket with such a run, or nil.
local function first_row(index, kind, length, rows)
  local begin = section(kind, length, rows)
  local found = redis.call('BITPOS', index, 1, begin, begin + rows - 1, 'BIT')
  return found >= 0 and found - begin or nil
end

-- How many seats of a run of `left` more than wanted are best skipped, by the order rule; the run begins at `first` of `length`.
local SKIPS = {
  ltr = function() return 0 end,
  rtl = function(left) return left end,
  center = function(left, first, count, length)
    local skipped = math.floor((length - count) / 2) - first + 1
    return math.max(0, math.min(left, skipped))
  end,
}

-- How far a run is from the best place of its row; of equally far ones the left one is better.
local ORDER = {
  ltr = function(start) return start end,
  rtl = function(start) return -start end,
  center = function(start, count, length) return math.abs(2 * (start - 1) + count - length) + start / 2 ^ 20 end,
}

-- The best run of a strip, as its first position and its order; if `clean`, of those that leave no single seat.
local function best_start(strip, count, rule, clean)
  local best, best_order
  local order, skip, length = ORDER[rule], SKIPS[rule], #strip
  for first, run in strip:gmatch('()(1+)') do
    local left = #run - count
    if left >= 0 then
      local wanted = skip(left, first, count, length)
      -- The best place may leave a single seat; then the best one is two places beside it at most.
      local from, to = wanted, wanted
      if clean then from, to = math.max(0, wanted - 2), math.min(left, wanted + 2) end
      if rule == 'center' then to = math.min(left, to + 1) end -- the middle may lie between two
      for skipped = from, to do
        if not clean or (skipped ~= 1 and left - skipped ~= 1) then
          local at = order(first + skipped, count, length)
          if not best or at < best_order then best, best_order = first + skipped, at end
        end
      end
    end
  end
  return best, best_order
end

-- The first row of a bucket with a run for so many; if `clean`, with one that leaves no single seat.
local function row_for(index, count, rows, clean)
  if not clean then return first_row(index, AT_LEAST, count, rows) end
  local exact, longer = first_row(index, EXACTLY, count, rows), first_row(index, AT_LEAST, count + 2, rows)
  return exact and longer and math.min(exact, longer) or exact or longer
end

-- The best run of an area: its place, its first position and its strip; nil if it has none.
local function best_in_area(show, member, want)
  local area, rows, rule, tiers = member:match('^(%d+)/(%d+)/(%a+)/([%d,]+)$')
  rows, tiers = tonumber(rows), want.tier or tiers
  local one_tier = not tiers:find(',', 1, true)
  for round = 1, 2 do
    local clean = round == 1
    local best, best_order
    for tier in tiers:gmatch('%d+') do
      local row = row_for(bucket_key(show, area, tier, 'index'), want.count, rows, clean)
      if row and (not best or row <= best.row) then
        local strip = redis.call('HGET', bucket_key(show, area, tier, 'strips'), row)
        local start, order = best_start(strip, want.count, rule, clean)
        if not best or row < best.row or order < best_order then
          best, best_order = { area = area, tier = tier, row = row, rows = rows, start = start, strip = strip }, order
        end
      end
      if one_tier then break end
    end
    if best then return best end
  end
end

-- The best run of the show, in the area whose turn it is.
local function best_run(show, want)
  local key, from, size = turns_key(show, want.tier), 0, 1
  while true do
    local areas = redis.call('ZRANGE', key, from, from + size - 1, 'WITHSCORES')
    for i = 1, #areas, 2 do
      local score = tonumber(areas[i + 1])
      if score >= SOLD_OUT then return nil end
      local found = best_in_area(show, areas[i], want)
      if found then
        found.member, found.score = areas[i], score
        return found
      end
    end
    if #areas < 2 * size then return nil end
    from, size = from + size, math.min(4 * size, 64)
  end
end

-- Puts a bucket behind all others when its last seat is taken, and in its place again when one is free; and likewise its area.
local function move_bucket(show, place, is_free)
  local function move(key, is_out)
    local score = tonumber(redis.call('ZSCORE', key, place.member))
    if is_out == (score < SOLD_OUT) then
      redis.call('ZADD', key, score + (is_out and SOLD_OUT or -SOLD_OUT), place.member)
    end
  end
  local tiers = place.member:match('([%d,]+)$')
  local has_seats = false
  for tier in tiers:gmatch('%d+') do
    local has = is_free and tier == place.tier or first_row(bucket_key(show, place.area, tier, 'index'), AT_LEAST, 1, place.rows)
    if tier == place.tier then move(turns_key(show, tier), not has) end
    has_seats = has_seats or has
  end
  move(turns_key(show), not has_seats)
end

-- The ids of seats side by side, from a row's record: its own ids, or a prefix and the labels, or a prefix and the first number.
local function ids_of(record, start, count)
  local kind, prefix, rest = record:match('^(%a)([^\n]*)\n(.*)$')
  local ids = {}
  if kind == 'n' then
    local first = tonumber(rest)
    for at = 1, count do ids[at] = prefix .. ('%d'):format(first + start + at - 2) end
    return ids
  end
  local at = 0
  for label in (rest .. '\n'):gmatch('([^\n]*)\n') do
    at = at + 1
    if at >= start and at < start + count then ids[#ids + 1] = kind == 'i' and label or prefix .. label end
  end
  return ids
end

local function counts_of(text)
  local seats, holds = (text or '0,0'):match('^(%d+),(%d+)$')
  return tonumber(seats), tonumber(holds)
end

local function count_user(show, user, seats, holds)
  local had_seats, had_holds = counts_of(redis.call('HGET', show, 'u:' .. user))
  seats, holds = had_seats + seats, had_holds + holds
  if seats == 0 and holds == 0 then
    redis.call('HDEL', show, 'u:' .. user)
  else
    redis.call('HSET', show, 'u:' .. user, seats .. ',' .. holds)
  end
end

-- Frees the seats of a hold or a sale.
local function free_seats(show, sale)
  local key = bucket_key(show, sale.area, sale.tier, 'strips')
  local strip = redis.call('HGET', key, sale.row)
  local new = strip:sub(1, sale.start - 1) .. ('1'):rep(sale.count) .. strip:sub(sale.start + sale.count)
  put_strip(show, sale, strip, new)
  if not strip:find('1', 1, true) then move_bucket(show, sale, true) end
end

local function end_hold(show, token, hold)
  free_seats(show, hold)
  redis.call('HDEL', show, 't:' .. token)
  redis.call('ZREM', show .. ':due', token)
  count_user(show, hold.user, -hold.count, -1)
end

local function record_of(show, token)
  local packed = redis.call('HGET', show, 't:' .. token)
  return packed and cmsgpack.unpack(packed)
end

-- The time in milliseconds, after the holds that have passed their deadline have ended.
local function now_in(show)
  local seconds, micros = unpack(redis.call('TIME'))
  local now = seconds * 1000 + math.floor(micros / 1000)
  for _, token in ipairs(redis.call('ZRANGE', show .. ':due', '-inf', now, 'BYSCORE', 'LIMIT', 0, DUE_AT_ONCE)) do
    end_hold(show, token, record_of(show, token))
  end
  return now
end

local function hold_reply(show, token, hold)
  local record = redis.call('HGET', show .. ':rows:' .. hold.area, hold.row)
  return { map = { token = token, user = hold.user, seats = ids_of(record, hold.start, hold.count), ['until'] = hold.deadline } }
end

-- USER COUNT TTL ms TOKEN token [TIER tier], or an error.
local function parse_hold(args)
  if #args ~= 6 and #args ~= 8 then return nil, 'ERR wrong number of arguments' end
  local want = { user = args[1], count = positive(args[2]) }
  for i = 3, #args, 2 do
    local word = args[i]:upper()
    if (word ~= 'TTL' and word ~= 'TOKEN' and word ~= 'TIER') or want[word] then return nil, 'ERR syntax error' end
    want[word] = args[i + 1]
  end
  local ttl = want.TTL and positive(want.TTL)
  if not want.count then return nil, 'ERR count must be 1 to ' .. MOST_TOGETHER end
  if want.count > MOST_TOGETHER then return nil, 'LIMIT a hold has at most ' .. MOST_TOGETHER .. ' seats here; the module has no such limit' end
  if not want.TOKEN or not want.TTL then return nil, 'ERR syntax error' end
  if not ttl or ttl > LONGEST_TTL then return nil, 'ERR ttl is out of range' end
  want.ttl = ttl
  return want
end

local function count_free(show)
  local free = 0
  for _, member in ipairs(redis.call('ZRANGE', turns_key(show), 0, -1)) do
    local area, _, _, tiers = member:match('^(%d+)/(%d+)/(%a+)/([%d,]+)$')
    for tier in tiers:gmatch('%d+') do
      for _, strip in ipairs(redis.call('HVALS', bucket_key(show, area, tier, 'strips'))) do
        free = free + select(2, strip:gsub('1', ''))
      end
    end
  end
  return free
end

local function seat_hold(keys, args)
  if #keys ~= 1 then return redis.error_reply('ERR wrong number of arguments') end
  local want, refusal = parse_hold(args)
  if not want then return redis.error_reply(refusal) end
  local show, token, user = keys[1], want.TOKEN, want.user
  local now = now_in(show)
  local known = redis.call('HMGET', show, 'limits', 't:' .. token, 'u:' .. user)
  local limits, packed, counted = known[1], known[2], known[3]
  if not limits then return redis.error_reply('NOKEY there is no show ' .. quoted(show)) end
  local print = want.count .. ',' .. want.ttl .. ',' .. (want.TIER or '')
  if packed then
    local hold = cmsgpack.unpack(packed)
    if hold.order or hold.user ~= user or hold.print ~= print then
      return redis.error_reply('EXISTS token ' .. quoted(token) .. ' is in use')
    end
    return hold_reply(show, token, hold) -- asked again after a lost reply
  end
  local most_seats, most_holds, longest = limits:match('^(%d+),(%d+),(%d+)$')
  local seats, holds = counts_of(counted)
  if most_holds ~= '0' and holds >= tonumber(most_holds) then
    return redis.error_reply(('LIMIT user %s may have %s live holds and has %d'):format(quoted(user), most_holds, holds))
  end
  if most_seats ~= '0' and seats + want.count > tonumber(most_seats) then
    return redis.error_reply(('LIMIT user %s may have %s seats and has %d'):format(quoted(user), most_seats, seats))
  end
  if longest ~= '0' and want.ttl > tonumber(longest) then
    return redis.error_reply(('LIMIT a hold lives at most %s ms in all'):format(longest))
  end
  if want.TIER then
    want.tier = redis.call('HGET', show, 'tier:' .. want.TIER)
    if not want.tier then return redis.error_reply('NOTFOUND no seat of this show has tier ' .. quoted(want.TIER)) end
  end
  local best = best_run(show, want)
  if not best then return nil end
  local strip, start, count = best.strip, best.start, want.count
  local left = strip:sub(1, start - 1) .. ('0'):rep(count) .. strip:sub(start + count)
  put_strip(show, best, strip, left)
  local hold = { user = user, area = best.area, tier = best.tier, row = best.row, rows = best.rows, member = best.member,
    start = start, count = count, deadline = now + want.ttl, print = print }
  local turn = redis.call('HINCRBY', show, 'turn', 1)
  redis.call('ZADD', turns_key(show, want.tier), math.floor(best.score / TURNS) * TURNS + turn, best.member)
  if not left:find('1', 1, true) then move_bucket(show, hold, false) end
  redis.call('HSET', show, 't:' .. token, cmsgpack.pack(hold), 'u:' .. user, seats + count .. ',' .. holds + 1)
  redis.call('ZADD', show .. ':due', hold.deadline, token)
  return hold_reply(show, token, hold)
end

-- The common part of the functions that end a hold: a token, and for some an order.
local function ending(most, finish)
  return function(keys, args)
    if #keys ~= 1 or #args < 1 or #args > most then return redis.error_reply('ERR wrong number of arguments') end
    local show, token = keys[1], args[1]
    now_in(show)
    local record = record_of(show, token)
    if not record then return redis.error_reply('NOTFOUND there is no hold ' .. quoted(token) .. '; it may have expired') end
    return finish(show, token, record, args[2])
  end
end

local seat_confirm = ending(2, function(show, token, hold, order)
  if hold.order then
    if hold.order == (order or '') then return hold.count end
    return redis.error_reply('EXISTS token ' .. quoted(token) .. ' is sold already')
  end
  hold.order, hold.deadline = order or '', nil
  redis.call('HSET', show, 't:' .. token, cmsgpack.pack(hold))
  redis.call('ZREM', show .. ':due', token)
  if order then redis.call('SADD', show .. ':order:' .. order, token) end
  count_user(show, hold.user, 0, -1)
  return hold.count
end)

local seat_release = ending(1, function(show, token, hold)
  if hold.order then return redis.error_reply('BADSTATE token ' .. quoted(token) .. ' is sold, not held') end
  end_hold(show, token, hold)
  return hold.count
end)

local seat_refund = ending(1, function(show, token, sale)
  if not sale.order then return redis.error_reply('BADSTATE token ' .. quoted(token) .. ' is held, not sold') end
  free_seats(show, sale)
  redis.call('HDEL', show, 't:' .. token)
  if sale.order ~= '' then redis.call('SREM', show .. ':order:' .. sale.order, token) end
  count_user(show, sale.user, -sale.count, 0)
  return sale.count
end)

-- The tokens and seats of an order.
local function seat_order(keys, args)
  if #keys ~= 1 or #args ~= 1 then return redis.error_reply('ERR wrong number of arguments') end
  local ids = {}
  for _, token in ipairs(redis.call('SMEMBERS', keys[1] .. ':order:' .. args[1])) do
    local sale = record_of(keys[1], token)
    local record = redis.call('HGET', keys[1] .. ':rows:' .. sale.area, sale.row)
    for _, id in ipairs(ids_of(record, sale.start, sale.count)) do ids[#ids + 1] = id end
  end
  return ids
end

-- The labels of the short form, false for a break.
local function labels_of(text)
  local labels = {}
  for item in text:gmatch('[^,]+') do
    local from, to = item:match('^(%d+)%-(%d+)$')
    if item == '|' then
      labels[#labels + 1] = false
    elseif from then
      from, to = tonumber(from), tonumber(to)
      for label = from, to, from <= to and 1 or -1 do labels[#labels + 1] = ('%d'):format(label) end
    else
      labels[#labels + 1] = item
    end
  end
  return labels
end

-- The positions of a row of a plan: label, tier, id, and whether a hold takes the seat; false for a break.
local function positions_of(row)
  local positions = {}
  if type(row.seats) == 'string' then
    for i, label in ipairs(labels_of(row.seats)) do positions[i] = label and { label = label, tier = row.tier } end
    return positions
  end
  for i, seat in ipairs(row.seats) do
    local flags = type(seat) == 'table' and type(seat.flags) == 'table' and #seat.flags or 0
    positions[i] = type(seat) == 'table' and { label = seat.label, tier = seat.tier or row.tier, id = seat.id, flagged = flags > 0 }
  end
  return positions
end

-- What `ids_of` reads.
local function row_record(area, row, positions)
  local prefix, labels, first = area.id .. '-' .. row.label .. '-', {}, nil
  local numbered, own = true, false
  for i, seat in ipairs(positions) do
    labels[i] = seat and seat.label or ''
    first = first or (seat and tonumber(seat.label) and tonumber(seat.label) - i + 1)
    numbered = numbered and (not seat or seat.label == ('%d'):format((first or 0) + i - 1))
    own = own or (seat and seat.id ~= nil)
  end
  if own then
    for i, seat in ipairs(positions) do labels[i] = seat and (seat.id or prefix .. seat.label) or '' end
    return 'i\n' .. table.concat(labels, '\n')
  end
  if numbered and first then return 'n' .. prefix .. '\n' .. ('%d'):format(first) end
  return 'l' .. prefix .. '\n' .. table.concat(labels, '\n')
end

local function by_rank(rows)
  local sorted = {}
  for place, row in ipairs(rows) do sorted[place] = { row = row, place = place } end
  table.sort(sorted, function(a, b)
    if a.row.rank ~= b.row.rank then return a.row.rank < b.row.rank end
    return a.place < b.place
  end)
  return sorted
end

local function unfit(plan)
  if type(plan.areas) ~= 'table' or #plan.areas == 0 then return 'areas: is empty' end
  for number, area in ipairs(plan.areas) do
    local place = ('areas[%d]: '):format(number - 1)
    if area.standing then return place .. 'standing areas are only in the module' end
    if not ORDER[area.rule or 'ltr'] then return place .. 'this rule is only in the module' end
    if math.abs(area.priority or 1) > LARGEST_PRIORITY then return place .. 'priority is out of range here' end
    for _, row in ipairs(area.rows) do
      if row.label:find('\n') then return place .. 'a label has a line break' end
    end
  end
end

local function seat_create(keys, args)
  if #keys ~= 1 or #args ~= 1 then return redis.error_reply('ERR wrong number of arguments') end
  local show, sum = keys[1], redis.sha1hex(args[1])
  local there = redis.call('HGET', show, 'plan')
  if there then
    if there == sum then return redis.status_reply('OK') end
    return redis.error_reply('EXISTS there is a show with another plan at ' .. quoted(show))
  end
  local sound, plan = pcall(cjson.decode, args[1])
  if not sound or type(plan) ~= 'table' then return redis.error_reply('ERR plan: is no JSON') end
  local why = unfit(plan)
  if why then return redis.error_reply('ERR plan: ' .. why) end
  local limits, tiers, count = plan.limits or {}, {}, 0
  for number, area in ipairs(plan.areas) do
    local name, rows, of_area = ('%04d'):format(number), #area.rows, {}
    for place, sorted in ipairs(by_rank(area.rows)) do
      local positions, strips = positions_of(sorted.row), {}
      for i, seat in ipairs(positions) do
        if seat then
          if not tiers[seat.tier] then
            count = count + 1
            tiers[seat.tier] = tostring(count)
          end
          local tier = tiers[seat.tier]
          if not of_area[tier] then
            of_area[tier] = true
            of_area[#of_area + 1] = tier
          end
          strips[tier] = strips[tier] or {}
          strips[tier][i] = not seat.flagged
        end
      end
      redis.call('HSET', show .. ':rows:' .. name, place - 1, row_record(area, sorted.row, positions))
      for tier, free in pairs(strips) do
        local marks = {}
        for i = 1, #positions do marks[i] = free[i] and '1' or '0' end
        put_strip(show, { area = name, tier = tier, row = place - 1, rows = rows }, '', table.concat(marks))
      end
    end
    local member = ('%s/%d/%s/%s'):format(name, rows, area.rule or 'ltr', table.concat(of_area, ','))
    local score = ((area.priority or 1) + LARGEST_PRIORITY) * TURNS
    redis.call('ZADD', turns_key(show), score, member)
    for _, tier in ipairs(of_area) do redis.call('ZADD', turns_key(show, tier), score, member) end
  end
  for name, tier in pairs(tiers) do redis.call('HSET', show, 'tier:' .. name, tier) end
  redis.call('HSET', show, 'plan', sum, 'limits',
    ('%d,%d,%d'):format(limits.seats_per_user or 0, limits.holds_per_user or 1, limits.max_hold_ms or 0))
  return redis.status_reply('OK')
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
  { 'seat_create', seat_create, {}, 'Creates a show from a plan' },
  { 'seat_hold', seat_hold, {}, 'Holds the best seats of a show for a user until a deadline' },
  { 'seat_confirm', seat_confirm, { 'allow-oom' }, 'Sells the seats of a hold' },
  { 'seat_release', seat_release, { 'allow-oom' }, 'Frees the seats of a hold' },
  { 'seat_refund', seat_refund, { 'allow-oom' }, 'Frees the seats that were sold under a token' },
  { 'seat_order', seat_order, { 'no-writes' }, 'The seats of an order' },
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
