-- The plain script over a list and a hash as existing systems have it: a baseline for the benchmarks, not part of the library.
--
--   EVALSHA sha 1 {numpool} add|del|reg|unreg|call|hangup [number]

local idle, states = KEYS[1] .. ':idle:up', KEYS[1] .. ':numstate'
local event, number = ARGV[1], ARGV[2]

local function load(n)
  local state = redis.call('HGET', states, n)
  return state and cjson.decode(state)
end

local function save(n, state)
  redis.call('HSET', states, n, '{"callstate":' .. state.callstate .. ',"regstate":' .. state.regstate .. '}')
end

if event == 'call' and not number then
  number = redis.call('LPOP', idle)
  if not number then return nil end
  save(number, { callstate = 1, regstate = 1 })
  return number
end

local state = load(number)
if event == 'add' then
  if state then return 0 end
  save(number, { callstate = 0, regstate = 0 })
  return 1
end
if not state then return event == 'del' and 0 or redis.error_reply('NOTFOUND no such number') end

local free = state.callstate == 0 and state.regstate == 1
if event == 'del' then
  if free then redis.call('LREM', idle, 0, number) end
  redis.call('HDEL', states, number)
  return 1
elseif event == 'reg' then
  if state.regstate == 1 then return 0 end
  state.regstate = 1
elseif event == 'unreg' then
  if state.regstate == 0 then return 0 end
  state.regstate = 0
elseif event == 'call' then
  if not free then return redis.error_reply('BADSTATE the number is not free') end
  state.callstate = 1
elseif event == 'hangup' then
  if state.callstate == 0 then return redis.error_reply('BADSTATE the number is not busy') end
  state.callstate = 0
else
  return redis.error_reply('ERR unknown event')
end

if free then redis.call('LREM', idle, 0, number) end
if state.callstate == 0 and state.regstate == 1 then redis.call('RPUSH', idle, number) end
save(number, state)
return event == 'call' and number or 1
