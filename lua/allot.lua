#!lua name=allot

-- Seats and numbers on plain Redis types, for servers that allow no modules. README.md beside this file explains how to load and call
-- the library, and its limits.
--
-- A show is created from a plan as the module's SEAT.CREATE takes it. Its two keys are show and show:due; the second one may be left
-- out (1 show), except in a cluster or behind a proxy that looks at the keys.
--
--   FCALL seat_create 2 show show:due plan
--   FCALL seat_hold 2 show show:due user count TTL ms TOKEN token [TIER tier]
--   FCALL seat_confirm 2 show show:due token [order]
--   FCALL seat_release 2 show show:due token
--   FCALL seat_refund 2 show show:due token
--   FCALL_RO seat_order 2 show show:due order
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

-- Seats: a show. It is created from a plan as the module's SEAT.CREATE takes it, and a hold chooses as SEAT.HOLD with ADJACENT REQUIRE
-- does.
--
-- A bucket is the seats of one tier in an area, and has a name of two numbers, <area>.<tier>. A strip is the seats of a bucket in a row:
-- a text of 1 for each position that is free and 0 for the others, with one more 0 at both ends, so that every run of 1 lies between 0.
--
-- A show is a hash, and a sorted set of its live holds by deadline. The fields of the hash:
--
--   plan                 the SHA-1 of the plan, a space, and seats_per_user,holds_per_user,max_hold_ms; 0 is no limit
--   turns, turns:<tier>  the order in which a hold, or a hold with this TIER, looks at the areas; see next_area
--   tier:<bucket>        the tier's name
--   runs:<bucket>        a letter for each row, best row first, that tells the lengths of its runs; see letter
--   free:<bucket>:<row>  the strip
--   ids:<bucket>:<row>   the ids of the row's seats; see ids_record
--   about                a note for people
--   due                  no live hold has an earlier deadline; absent if there is no live hold
--   t:<token>            a hold or a sale; see sale_of
--   u:<user>             seats,holds of a user; only if the show limits them
--   o:<order>            the tokens of an order
--
-- To call Redis costs as much as the search, so a hold reads all it may need at once, and writes at once. All checks come before the
-- first write, and the commands that write cannot fail then: the types of both keys are known.

local FIELDS_AT_ONCE = 4000 -- as ZREM_AT_ONCE
local MOST_TOGETHER = 10
local LONGEST = MOST_TOGETHER + 2 -- of a longer run, all that matters is that it has room for two more
local MOST_KEPT = 10000

-- Texts and patterns, made once: a number costs much to print.
local ONES, ZEROS, RUN, COUNTS, NUMERALS = {}, {}, {}, {}, {}
for number = 0, 100 do NUMERALS[number] = ('%d'):format(number) end
for length = 1, LONGEST do
  ONES[length], ZEROS[length] = ('1'):rep(length), ('0'):rep(length)
  RUN[length] = '0' .. ONES[length] .. '0'
end
for count = 1, MOST_TOGETHER do COUNTS[NUMERALS[count]] = count end

-- The letter of a row whose longest run has this length; `second` if it also has a run that is shorter by one. These two tell for each
-- party whether it can be seated without leaving a single seat: in a run as long as the party, or longer by at least two.
local function letter(longest, second)
  local at = 2 * longest + (second and 2 or 1)
  return ('ABCDEFGHIJKLMNOPQRSTUVWXYZ'):sub(at, at)
end

local SOLD_OUT = letter(0)

-- Letters by the longest run, and the other way round.
local WITHOUT_SECOND, WITH_SECOND, LENGTHS = {}, {}, {}
for length = 0, LONGEST do
  WITHOUT_SECOND[length], WITH_SECOND[length] = letter(length), letter(length, true)
  LENGTHS[letter(length)], LENGTHS[letter(length, true)] = length, length
end

-- Patterns that match the rows in front of the first one with a run for so many, and with one that leaves no single seat.
local BEFORE_ANY, BEFORE_CLEAN = {}, {}
for count = 1, MOST_TOGETHER do
  local shorter = SOLD_OUT .. '-' .. letter(count - 1, true)
  BEFORE_ANY[count] = '^[' .. shorter .. ']*()'
  BEFORE_CLEAN[count] = '^[' .. shorter .. letter(count + 1) .. ']*()'
end

-- The letter of a strip without runs longer than `longest`.
local function letter_of(strip, longest)
  for length = longest, 1, -1 do
    if strip:find(ONES[length], 1, true) then
      local second = length > 1 and length < LONGEST and strip:find(RUN[length - 1], 1, true)
      return second and WITH_SECOND[length] or WITHOUT_SECOND[length]
    end
  end
  return SOLD_OUT
end

-- The letters of a bucket after one of them has changed.
local function with_letter(runs, row, new)
  return runs:sub(1, row) .. new .. runs:sub(row + 2)
end

-- What is kept between calls follows from plans alone, and is found by their SHA-1; so it is true for as long as it is kept. The
-- exception is `guesses`: where the next hold of a show may find its seats. It reads this row at once, and then checks whether it is
-- the right one, so a wrong guess costs time only.
local plans, guesses, kept = {}, {}, 0

local function keep()
  kept = kept + 1
  if kept > MOST_KEPT then plans, guesses, kept = {}, {}, 0 end
end

-- A plan from its field: limits, and places.
local function plan_of(field)
  local plan = plans[field]
  if not plan then
    local seats, holds, longest = field:match(' (%d+),(%d+),(%d+)$')
    plan = { seats = tonumber(seats), holds = tonumber(holds), longest = tonumber(longest), places = {} }
    plan.limits_users, plan.limited = plan.seats + plan.holds > 0, plan.seats + plan.holds + plan.longest > 0
    keep()
    plans[field] = plan
  end
  return plan
end

-- A row of a bucket: the names of its fields.
local function place_of(plan, bucket, row)
  local rows = plan.places[bucket]
  if not rows then
    rows = {}
    plan.places[bucket] = rows
  end
  local place = rows[row]
  if not place then
    local name = bucket .. ':' .. row
    place = { name = name, bucket = bucket, row = row, runs = 'runs:' .. bucket, free = 'free:' .. name }
    keep()
    rows[row] = place
  end
  return place
end

local NOWHERE = { runs = 'runs:', free = 'free:' }

-- The nearest start to a target that leaves no single seat, if `start` leaves one: an end of the run, or a start two or more from both.
local function nearest_clean(first, start, last, target)
  if last == first + 1 then return nil end
  local left, right = last - 2, first + 2
  if start == first + 1 or last == first + 3 then left = first end
  if start == last - 1 or last == first + 3 then right = last end
  return target - left <= right - target and left or right
end

-- The best start in a strip for so many, and its distance from the best place by the order rule; of equally far ones the left one is
-- better. If clean, of those that leave no single seat.
local function best_start(strip, count, rule, clean)
  local target = 2
  if rule == 'r' then
    target = #strip - count
  elseif rule == 'c' then
    target = (#strip - count) / 2 + 1
  end
  local best, nearest
  local ones = ONES[count]
  local first = strip:find(ones, 1, true)
  while first do
    local after = strip:find('0', first + count, true)
    local last, start = after - count, target - target % 1
    if start < first then
      start = first
    elseif start > last then
      start = last
    end
    if clean and (start == first + 1 or start == last - 1) then start = nearest_clean(first, start, last, target) end
    if start then
      local distance = start < target and target - start or start - target
      if not best or distance < nearest then best, nearest = start, distance end
      if start >= target then break end -- all others are farther to the right
    end
    first = strip:find(ones, after, true)
  end
  return best, nearest
end

-- The best run of an area: its row, the letters of its bucket, its strip and its start; nil if it has none. The first row of all its
-- buckets counts, and if clean, only runs that leave no single seat. `guess` is a row whose letters and strip seat_hold has read
-- already, as the last two of `known`.
local function best_in_area(show, plan, bucket, others, rule, count, clean, guess, known)
  local before = (clean and BEFORE_CLEAN or BEFORE_ANY)[count]
  local best, best_runs, best_strip, best_at, nearest
  while true do
    local runs = bucket == guess.bucket and known[6] or redis.call('HGET', show, 'runs:' .. bucket)
    local row = runs:match(before) - 1
    if row < #runs and (not best or row <= best.row) then
      local place = place_of(plan, bucket, row)
      local strip = place == guess and known[7] or redis.call('HGET', show, place.free)
      local start, distance = best_start(strip, count, rule, clean)
      if not best or row < best.row or distance < nearest or (distance == nearest and start < best_at) then
        best, best_runs, best_strip, best_at, nearest = place, runs, strip, start, distance
      end
    end
    if others == '' then return best, best_runs, best_strip, best_at end
    bucket, others = others:match('^,([^,]+)(.*)$')
  end
end

-- The next area with free seats, from `at` on. An entry of `turns` is + or, if all is taken, -, then the first letter of the order rule,
-- the buckets of the area, and a semicolon. Areas of one priority are a group that ends with a bar: the one in front is next.
local function next_area(turns, at)
  return turns:find('%+(%a)([^;,]+)([^;]*);(|?)', at)
end

-- The area of an entry has had its turn: the entry goes to the end of its group.
local function after_turn(turns, from, to)
  local bar = turns:find('|', to, true)
  return turns:sub(1, from - 1) .. turns:sub(to + 1, bar - 1) .. turns:sub(from, to) .. turns:sub(bar)
end

local function has_seats(runs)
  return runs:find('[^' .. SOLD_OUT .. ']')
end

-- A bucket's last seat was taken, or its first one is free: marks the entries of its area.
local function mark_area(show, bucket, is_free)
  local entry = '[+-]%a' .. bucket:match('^%d+') .. '%.[^;]*;'
  local of_tier = 'turns:' .. redis.call('HGET', show, 'tier:' .. bucket)
  for _, field in ipairs { of_tier, 'turns' } do
    local turns = redis.call('HGET', show, field)
    local from, to = turns:find(entry)
    for other in turns:sub(from + 2, to - 1):gmatch('[^,]+') do
      is_free = is_free or (field == 'turns' and has_seats(redis.call('HGET', show, 'runs:' .. other)))
    end
    redis.call('HSET', show, field, turns:sub(1, from - 1) .. (is_free and '+' or '-') .. turns:sub(from + 1))
  end
end

-- The ids of seats side by side. The record of a row is the width of its labels, a number, and a text. If the width is 0, the text is
-- a prefix, and the number is what to add to a place in the strip. Otherwise the number is the length of the prefix, and the labels
-- follow it, all filled with zero bytes to the same width.
local function ids_of(show, place, start, count)
  local names = place.names
  if not names then
    local width, number, text = redis.call('HGET', show, 'ids:' .. place.name):match('^(%d+) (-?%d+) (.*)$')
    names = { width = tonumber(width), number = tonumber(number), text = text }
    place.names = names
  end
  local ids, width, number, text = {}, names.width, names.number, names.text
  if width == 0 then
    number = number + start - 1
    for at = 1, count do ids[at] = text .. (NUMERALS[number + at] or number + at) end
    return ids
  end
  local prefix = text:sub(1, number)
  for at = 1, count do
    local from = number + (start + at - 3) * width
    ids[at] = prefix .. text:sub(from + 1, from + width):match('^%Z*')
  end
  return ids
end

local function counts_of(text)
  if not text then return 0, 0 end
  local seats, holds = text:match('^(%d+),(%d+)$')
  return tonumber(seats), tonumber(holds)
end

-- Counts a user's seats and holds, if the show does.
local function count_user(show, plan, user, seats, holds)
  if not plan.limits_users then return end
  local had_seats, had_holds = counts_of(redis.call('HGET', show, 'u:' .. user))
  seats, holds = had_seats + seats, had_holds + holds
  if seats == 0 and holds == 0 then
    redis.call('HDEL', show, 'u:' .. user)
  else
    redis.call('HSET', show, 'u:' .. user, seats .. ',' .. holds)
  end
end

-- A hold as it is stored.
local function packed_hold(place, start, count, ttl, deadline, user, tier)
  local length = #user
  return place.name .. ' ' .. (NUMERALS[start] or start) .. ' ' .. count .. ' ' .. ttl .. ' ' .. deadline .. ' '
    .. (NUMERALS[length] or length) .. ' ' .. user .. tier
end

local function packed_sale(order, hold)
  return ('sold %d %s%s'):format(#order, order, hold)
end

-- A hold or a sale, from the form in which it is stored; nil if there is none.
local function sale_of(plan, packed)
  if not packed then return nil end
  local length, at = packed:match('^sold (%d+) ()')
  local order = at and packed:sub(at, at + length - 1)
  local hold = at and packed:sub(at + length) or packed
  local bucket, row, start, count, ttl, deadline, of_user, rest = hold:match('^(%S+):(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  return {
    place = place_of(plan, bucket, tonumber(row)), start = tonumber(start), count = tonumber(count), ttl = ttl,
    deadline = tonumber(deadline), user = rest:sub(1, of_user), tier = rest:sub(of_user + 1), order = order, hold = hold,
  }
end

-- Frees the seats of a hold or a sale, and forgets it.
local function end_sale(show, plan, token, sale)
  local place, start, count = sale.place, sale.start, sale.count
  local known = redis.call('HMGET', show, place.runs, place.free)
  local runs, strip = known[1], known[2]
  local row = place.row
  strip = strip:sub(1, start - 1) .. ONES[count] .. strip:sub(start + count)
  local longest = 2 * LENGTHS[runs:sub(row + 1, row + 1)] + count -- the seats may join two runs
  local new = letter_of(strip, longest < LONGEST and longest or LONGEST)
  redis.call('HSET', show, place.free, strip, place.runs, with_letter(runs, row, new))
  redis.call('HDEL', show, 't:' .. token)
  if not has_seats(runs) then mark_area(show, place.bucket, true) end
  count_user(show, plan, sale.user, -count, sale.order and 0 or -1)
end

-- Ends the holds that have passed their deadline.
local function end_due(show, due, plan, now)
  for _, token in ipairs(redis.call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, DUE_AT_ONCE)) do
    redis.call('ZREM', due, token)
    local hold = sale_of(plan, redis.call('HGET', show, 't:' .. token))
    if hold then end_sale(show, plan, token, hold) end
  end
  local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('HSET', show, 'due', first[2])
  else
    redis.call('HDEL', show, 'due')
  end
end

-- The time in milliseconds, the plan of a show and further fields, after the holds that are due by then have ended. No plan: no show.
local function look(show, due, ...)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + time[2] / 1000
  local known = redis.call('HMGET', show, 'plan', 'due', ...)
  local plan = known[1] and plan_of(known[1])
  if known[2] and known[2] + 0 <= now then
    end_due(show, due, plan, now)
    known = redis.call('HMGET', show, 'plan', 'due', ...)
  end
  return now, plan, known
end

-- The keys of a show; nil if others are given.
local function keys_of(keys)
  local due = (keys[1] or '') .. ':due'
  if #keys == 1 or (#keys == 2 and keys[2] == due) then return keys[1], due end
end

local OPTIONS = { TTL = 'TTL', TOKEN = 'TOKEN', TIER = 'TIER' }

-- USER COUNT TTL ms TOKEN token [TIER tier]: the count, the time to live as a text and as a number, the token and the tier; or nil and
-- an error.
local function parse_hold(args)
  if #args ~= 6 and #args ~= 8 then return nil, 'ERR wrong number of arguments' end
  local count, ttl, token, tier = COUNTS[args[2]], nil, nil, nil
  if not count then
    if not positive(args[2]) then return nil, 'ERR count must be 1 to ' .. MOST_TOGETHER end
    return nil, 'LIMIT a hold has at most ' .. MOST_TOGETHER .. ' seats here; the module has no such limit'
  end
  for i = 3, #args, 2 do
    local option, value = OPTIONS[args[i]] or args[i]:upper(), args[i + 1]
    if option == 'TTL' and not ttl then
      ttl = value
    elseif option == 'TOKEN' and not token then
      token = value
    elseif option == 'TIER' and not tier then
      tier = value
    else
      return nil, 'ERR syntax error'
    end
  end
  if not token or not ttl then return nil, 'ERR syntax error' end
  local ms = #ttl <= 13 and ttl:find('^[1-9]%d*$') and ttl + 0
  if not ms or ms > LONGEST_TTL then return nil, 'ERR ttl is out of range' end
  return count, ttl, ms, token, tier
end

-- Why the limits of a plan refuse a hold to a user who has so many seats and holds; nil if they do not.
local function beyond_limits(plan, user, count, ms, seats, holds)
  if plan.holds > 0 and holds >= plan.holds then
    return ('LIMIT user %s may have %d live holds and has %d'):format(quoted(user), plan.holds, holds)
  end
  if plan.seats > 0 and seats + count > plan.seats then
    return ('LIMIT user %s may have %d seats and has %d'):format(quoted(user), plan.seats, seats)
  end
  if plan.longest > 0 and ms > plan.longest then return ('LIMIT a hold lives at most %d ms in all'):format(plan.longest) end
end

local function hold_reply(token, user, seats, deadline)
  return { map = { token = token, user = user, seats = seats, ['until'] = deadline } }
end

local function hold_again(show, token, packed, hold, user, count, ttl, tier)
  if hold.order or hold.user ~= user or hold.count ~= count or hold.ttl ~= ttl or hold.tier ~= tier then
    return redis.error_reply('EXISTS token ' .. quoted(token) .. ' is in use')
  end
  return hold_reply(token, user, ids_of(show, hold.place, hold.start, count), hold.deadline)
end

-- Guesses where the next hold finds its seats: in the same row, or after a turn where the last hold of the area in front did.
local function expect(show, place, turns)
  local last = guesses[show]
  if not last then
    keep()
    last = {}
    guesses[show] = last
  end
  last[place.bucket], last.next = place, place
  if turns then
    local _, _, _, bucket = next_area(turns, 1)
    last.next = last[bucket] or place
  end
end

-- Adds a field to those to write, of which there may be none yet.
local function add(fields, field, value)
  if not fields then return { field, value } end
  fields[#fields + 1], fields[#fields + 2] = field, value
  return fields
end

local function seat_hold(keys, args)
  local show, due = keys_of(keys)
  if not show then return redis.error_reply('ERR wrong number of arguments') end
  local count, ttl, ms, token, tier = parse_hold(args)
  if not count then return redis.error_reply(ttl) end
  local user, guess = args[1], guesses[show] and guesses[show].next or NOWHERE
  local of_token, of_user, of_turns = 't:' .. token, 'u:' .. user, tier and 'turns:' .. tier or 'turns'
  local now, plan, known = look(show, due, of_turns, of_token, of_user, guess.runs, guess.free)
  local first_due, turns, packed = known[2], known[3], known[4]
  if not plan then return redis.error_reply('NOKEY there is no show ' .. quoted(show)) end
  if packed then return hold_again(show, token, packed, sale_of(plan, packed), user, count, ttl, tier or '') end -- after a lost reply
  local seats, holds
  if plan.limited then
    seats, holds = counts_of(known[5])
    local refusal = beyond_limits(plan, user, count, ms, seats, holds)
    if refusal then return redis.error_reply(refusal) end
  end
  if not turns then return redis.error_reply('NOTFOUND no seat of this show has tier ' .. quoted(tier)) end

  local from, to, rule, bucket, others, is_last = next_area(turns, 1)
  local place, runs, strip, start
  while from do
    place, runs, strip, start = best_in_area(show, plan, bucket, others, rule, count, true, guess, known)
    if place then break end
    place, runs, strip, start = best_in_area(show, plan, bucket, others, rule, count, false, guess, known)
    if place then break end
    from, to, rule, bucket, others, is_last = next_area(turns, to)
  end
  if not from then return nil end

  local row, deadline = place.row, now + ms
  local deadline_text = ('%d'):format(deadline)
  strip = strip:sub(1, start - 1) .. ZEROS[count] .. strip:sub(start + count)
  local old = runs:sub(row + 1, row + 1)
  local new = letter_of(strip, LENGTHS[old])
  local more
  if new ~= old then
    runs = with_letter(runs, row, new)
    more = { place.runs, runs }
  end
  local new_turns = is_last == '' and after_turn(turns, from, to)
  if new_turns then more = add(more, of_turns, new_turns) end
  if plan.limits_users then more = add(more, of_user, seats + count .. ',' .. holds + 1) end
  if not first_due or deadline < first_due + 0 then more = add(more, 'due', deadline_text) end
  local hold = packed_hold(place, start, args[2], ttl, deadline_text, user, tier or '')
  redis.call('ZADD', due, deadline_text, token)
  if more then
    redis.call('HSET', show, of_token, hold, place.free, strip, unpack(more))
  else
    redis.call('HSET', show, of_token, hold, place.free, strip)
  end
  if new == SOLD_OUT and not has_seats(runs) then mark_area(show, place.bucket, false) end
  expect(show, place, new_turns)
  return hold_reply(token, user, ids_of(show, place, start, count), deadline)
end

-- The common part of the functions about a token, and for some an order.
local function on_token(most, finish)
  return function(keys, args)
    local show, due = keys_of(keys)
    if not show or #args < 1 or #args > most then return redis.error_reply('ERR wrong number of arguments') end
    local token, order = args[1], args[2]
    local _, plan, known = look(show, due, 't:' .. token, 'o:' .. (order or ''))
    local sale = plan and sale_of(plan, known[3])
    if not sale then return redis.error_reply('NOTFOUND there is no hold ' .. quoted(token) .. '; it may have expired') end
    return finish(show, plan, token, sale, due, order, known[4])
  end
end

local seat_confirm = on_token(2, function(show, plan, token, hold, due, order, tokens)
  if hold.order then
    if hold.order == (order or '') then return hold.count end
    return redis.error_reply('EXISTS token ' .. quoted(token) .. ' is sold already')
  end
  redis.call('ZREM', due, token)
  local sale = packed_sale(order or '', hold.hold)
  if order then
    redis.call('HSET', show, 't:' .. token, sale, 'o:' .. order, (tokens or '') .. cmsgpack.pack(token))
  else
    redis.call('HSET', show, 't:' .. token, sale)
  end
  count_user(show, plan, hold.user, 0, -1)
  return hold.count
end)

local seat_release = on_token(1, function(show, plan, token, hold, due)
  if hold.order then return redis.error_reply('BADSTATE token ' .. quoted(token) .. ' is sold, not held') end
  redis.call('ZREM', due, token)
  end_sale(show, plan, token, hold)
  return hold.count
end)

-- The tokens of an order, from its field: they are packed one behind the other.
local function tokens_of(packed)
  return packed and { cmsgpack.unpack(packed) } or {}
end

local seat_refund = on_token(1, function(show, plan, token, sale)
  if not sale.order then return redis.error_reply('BADSTATE token ' .. quoted(token) .. ' is held, not sold') end
  end_sale(show, plan, token, sale)
  local field, others = 'o:' .. sale.order, {}
  for _, other in ipairs(tokens_of(redis.call('HGET', show, field))) do
    if other ~= token then others[#others + 1] = other end
  end
  if #others > 0 then
    redis.call('HSET', show, field, cmsgpack.pack(unpack(others)))
  else
    redis.call('HDEL', show, field)
  end
  return sale.count
end)

-- The seats of an order.
local function seat_order(keys, args)
  local show = keys_of(keys)
  if not show or #args ~= 1 then return redis.error_reply('ERR wrong number of arguments') end
  local seats = {}
  local plan = redis.call('HGET', show, 'plan')
  for _, token in ipairs(plan and tokens_of(redis.call('HGET', show, 'o:' .. args[1])) or {}) do
    local sale = sale_of(plan_of(plan), redis.call('HGET', show, 't:' .. token))
    for _, id in ipairs(ids_of(show, sale.place, sale.start, sale.count)) do seats[#seats + 1] = id end
  end
  return seats
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

-- What ids_of reads.
local function ids_record(area, row, positions)
  local prefix, base, numbered, own = area.id .. '-' .. row.label .. '-', nil, true, false
  for i, seat in ipairs(positions) do
    if seat then
      base = base or (tonumber(seat.label) or 0) - i
      numbered = numbered and seat.label == ('%d'):format(base + i)
      own = own or seat.id ~= nil
    end
  end
  if numbered and not own then return ('0 %d %s'):format(base - 1, prefix) end
  local labels, width = {}, 0
  for i, seat in ipairs(positions) do
    labels[i] = seat and (own and (seat.id or prefix .. seat.label) or seat.label) or ''
    width = math.max(width, #labels[i])
  end
  for i, label in ipairs(labels) do labels[i] = label .. ('\0'):rep(width - #label) end
  if own then prefix = '' end
  return ('%d %d '):format(width, #prefix) .. prefix .. table.concat(labels)
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

local RULES = { ltr = 'l', rtl = 'r', center = 'c' }

local function unfit(plan)
  if type(plan.areas) ~= 'table' or #plan.areas == 0 then return 'areas: is empty' end
  for number, area in ipairs(plan.areas) do
    local place = ('areas[%d]: '):format(number - 1)
    if area.standing then return place .. 'standing areas are only in the module' end
    if not RULES[area.rule or 'ltr'] then return place .. 'this rule is only in the module' end
  end
end

-- Adds the fields of an area, and returns its entries of `turns`: one for each tier, and one of all its buckets. `tiers` numbers the
-- names of tiers in the order in which they occur.
local function add_area(fields, area, number, tiers)
  local function add(field, value)
    fields[#fields + 1], fields[#fields + 2] = field, value
  end
  local rows, letters, buckets = #area.rows, {}, {}
  for row, sorted in ipairs(by_rank(area.rows)) do
    local positions, marks = positions_of(sorted.row), {}
    for i, seat in ipairs(positions) do
      if seat then
        local tier = seat.tier
        if not tiers[tier] then
          tiers[#tiers + 1] = tier
          tiers[tier] = #tiers
        end
        if not letters[tier] then
          letters[tier] = {}
          for at = 1, rows do letters[tier][at] = SOLD_OUT end
          buckets[#buckets + 1] = tier
        end
        marks[tier] = marks[tier] or {}
        marks[tier][i] = not seat.flagged and '1' or nil
      end
    end
    for tier, free in pairs(marks) do
      for i = 0, #positions + 1 do free[i] = free[i] or '0' end
      local name, strip = number .. '.' .. tiers[tier] .. ':' .. row - 1, table.concat(free, '', 0)
      letters[tier][row] = letter_of(strip, LONGEST)
      add('free:' .. name, strip)
      add('ids:' .. name, ids_record(area, sorted.row, positions))
    end
  end
  local rule, of_tier, any_free = RULES[area.rule or 'ltr'], {}, false
  for i, tier in ipairs(buckets) do
    local bucket, runs = number .. '.' .. tiers[tier], table.concat(letters[tier])
    local is_free = has_seats(runs)
    any_free = any_free or is_free
    add('tier:' .. bucket, tier)
    add('runs:' .. bucket, runs)
    of_tier[tier] = (is_free and '+' or '-') .. rule .. bucket .. ';'
    buckets[i] = bucket
  end
  return of_tier, (any_free and '+' or '-') .. rule .. table.concat(buckets, ',') .. ';'
end

-- The areas of a plan, best priority first.
local function by_priority(areas)
  local sorted = {}
  for number, area in ipairs(areas) do sorted[number] = { area = area, number = number, priority = area.priority or 1 } end
  table.sort(sorted, function(a, b)
    if a.priority ~= b.priority then return a.priority < b.priority end
    return a.number < b.number
  end)
  return sorted
end

-- The fields of a new show, but the plan's.
local function fields_of(plan)
  local fields, tiers, turns = {}, {}, { turns = '' }
  local before
  for _, sorted in ipairs(by_priority(plan.areas)) do
    if before and sorted.priority ~= before then
      for field, entries in pairs(turns) do turns[field] = entries .. '|' end
    end
    before = sorted.priority
    local of_tier, of_all = add_area(fields, sorted.area, sorted.number, tiers)
    turns.turns = turns.turns .. of_all
    for tier, entry in pairs(of_tier) do turns['turns:' .. tier] = (turns['turns:' .. tier] or '') .. entry end
  end
  for field, entries in pairs(turns) do
    fields[#fields + 1], fields[#fields + 2] = field, entries .. '|'
  end
  return fields
end

-- A value of more than 64 bytes makes Redis store a hash as a table even if it is small: in a list each field is a walk.
local ABOUT = 'A show of the Functions library of Allot. To delete it, delete this key and the one that ends with :due.'

local function seat_create(keys, args)
  local show, due = keys_of(keys)
  if not show or #args ~= 1 then return redis.error_reply('ERR wrong number of arguments') end
  local sum = redis.sha1hex(args[1])
  local there = redis.call('HGET', show, 'plan')
  if there then
    if there:sub(1, #sum) == sum then return redis.status_reply('OK') end
    return redis.error_reply('EXISTS there is a show with another plan at ' .. quoted(show))
  end
  local sound, plan = pcall(cjson.decode, args[1])
  if not sound or type(plan) ~= 'table' then return redis.error_reply('ERR plan: is no JSON') end
  local why = unfit(plan)
  if why then return redis.error_reply('ERR plan: ' .. why) end
  local fields, limits = fields_of(plan), plan.limits or {}
  local plan_field = ('%s %d,%d,%d'):format(sum, limits.seats_per_user or 0, limits.holds_per_user or 1, limits.max_hold_ms or 0)
  redis.call('DEL', due) -- may be left of a show that was deleted
  for i = 1, #fields, FIELDS_AT_ONCE do
    redis.call('HSET', show, unpack(fields, i, math.min(i + FIELDS_AT_ONCE - 1, #fields)))
  end
  redis.call('HSET', show, 'plan', plan_field, 'about', ABOUT)
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
