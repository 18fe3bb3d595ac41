-- Takes the list and the hash of an existing system over into a pool, in one step: no client sees half of it, and no event of
-- the old system is lost between reading and writing. Everything is read and checked before the first write.
--
--   KEYS: list, hash, pool     ARGV: '1' to change something, '1' to delete the list and the hash, life of the leases in ms or ''
--
-- The hash has the state of each number, the list has the order of the free numbers. Replies with counts and examples by name.

local list, hash, pool = KEYS[1], KEYS[2], KEYS[3]
local change, delete, ttl = ARGV[1] == '1', ARGV[2] == '1', ARGV[3]
local AT_ONCE, EXAMPLES = 1000, 5

for key, kind in pairs { [list] = 'list', [hash] = 'hash' } do
  local found = redis.call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ' and no ' .. kind)
  end
end
-- The hash has the numbers. Without it, all of the list would be left out.
if redis.call('EXISTS', hash) == 0 then return redis.error_reply('NOTFOUND there is no hash ' .. hash) end
if change and redis.call('EXISTS', pool) == 1 then return redis.error_reply('EXISTS there is a key ' .. pool .. ' already') end

local found = {}
local function note(what, number)
  local seen = found[what] or { count = 0, examples = {} }
  seen.count = seen.count + 1
  if seen.count <= EXAMPLES then seen.examples[seen.count] = number end
  found[what] = seen
end

local function is_number(text)
  return #text <= 32 and text:find('^[0-9+*#]+$')
end

-- The state of a number in the hash; nil if it cannot be read.
local function read(record)
  local good, state = pcall(cjson.decode, record)
  if not good or type(state) ~= 'table' then return nil end
  local function bit(value)
    if value == 1 or value == '1' or value == true then return 1 end
    if value == 0 or value == '0' or value == false then return 0 end
  end
  local busy, up = bit(state.callstate), bit(state.regstate)
  if busy and up then return { busy = busy == 1, up = up == 1 } end
end

local all, up, busy, busy_down, states = {}, {}, {}, {}, {}
local records = redis.call('HGETALL', hash)
for i = 1, #records, 2 do
  local number, state = records[i], read(records[i + 1])
  if not is_number(number) then
    note('not_a_number', number)
  else
    if not state then
      note('unreadable', number)
      state = { busy = false, up = false }
    end
    states[number] = state
    all[#all + 1] = number
    if state.busy then
      busy[#busy + 1] = number
      if not state.up then busy_down[#busy_down + 1] = number end
    end
  end
end

-- The queue: first the numbers of the list, in its order; then the free numbers that the list lacks.
for _, number in ipairs(redis.call('LRANGE', list, 0, -1)) do
  local state = states[number]
  if not state then
    note(is_number(number) and 'listed_unknown' or 'listed_not_a_number', number)
  elseif state.queued then
    note('listed_twice', number)
  elseif state.busy then
    note('listed_busy', number)
  elseif not state.up then
    note('listed_down', number)
  else
    state.queued = true
    up[#up + 1] = number
  end
end
table.sort(all) -- a hash has no order; equal hashes shall make equal pools
for _, number in ipairs(all) do
  local state = states[number]
  if state.up and not state.busy and not state.queued then
    note('not_listed', number)
    up[#up + 1] = number
  end
end

local function each(command, numbers)
  for i = 1, #numbers, AT_ONCE do
    redis.call(command, pool, unpack(numbers, i, math.min(i + AT_ONCE - 1, #numbers)))
  end
end

-- What is left out exists nowhere else.
local left_out = 0
for _, what in ipairs { 'unreadable', 'not_a_number', 'listed_not_a_number', 'listed_unknown' } do
  left_out = left_out + (found[what] and found[what].count or 0)
end
if change and delete and left_out > 0 then
  return redis.error_reply('BADSTATE ' .. left_out .. ' entries could not be taken over; the list and the hash stay, and nothing was changed')
end

if change then
  redis.call('NUMPOOL.CONFIG', pool)
  each('NUMPOOL.ADD', all)
  table.sort(busy)
  each('NUMPOOL.REG', busy)
  for _, number in ipairs(busy) do
    if ttl ~= '' then
      redis.call('NUMPOOL.CALL', pool, number, 'TTL', ttl)
    else
      redis.call('NUMPOOL.CALL', pool, number)
    end
  end
  each('NUMPOOL.UNREG', busy_down)
  each('NUMPOOL.REG', up)
  if delete then redis.call('UNLINK', list, hash) end
end

found.numbers = { count = #all, examples = {} }
found.free = { count = #up, examples = {} }
found.busy = { count = #busy, examples = {} }
return cjson.encode(found)
