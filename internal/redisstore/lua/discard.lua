-- discard.lua deletes logs that end beyond every epoch of their bucket.
--
-- KEYS  per bucket: log stream
-- ARGV  per bucket: the bucket's newest epoch (decimal, 1 … 2^53 - 1), the id at which the log was found
--       to end
-- Returns 1 or 0 per bucket: whether it was deleted. Errors: NOTDONE, HALFDONE (shared.lua).
--
-- Atomic because the comparison of the log's end with what was seen decides, with the deletion, that
-- nobody has begun a life in it since. Idempotent: what is gone is gone. A log that is not a stream is
-- left alone. Keeps I7: entries beyond the newest epoch are nobody's, those before it are in the ledger
-- or never will be.

if #KEYS == 0 or #ARGV ~= 2 * #KEYS then
  return failed('ARGUMENTS are not what the script expects')
end

-- last_id returns the id at which a log ends, also when that entry was trimmed or deleted since; nil
-- when the key is no log; nil and the reply of the failed call.
local function last_id(key)
  local kind = redis.pcall('TYPE', key)
  if kind.err then return nil, failed(kind.err) end
  if kind.ok ~= 'stream' then return nil end
  local info = redis.pcall('XINFO', 'STREAM', key)
  if info.err then return nil, failed(info.err) end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return info[i + 1] end
  end
  return nil
end

local reply = {}
for k = 1, #KEYS do
  local epoch, seen = ARGV[2 * k - 1], ARGV[2 * k]
  local last, fault = last_id(KEYS[k])
  if fault then return fault end
  reply[k] = 0
  if last == seen and tonumber(string.match(last, '^%d+')) > tonumber(epoch) then
    local done = redis.pcall('DEL', KEYS[k])
    if type(done) == 'table' then return failed(done.err) end
    written = true
    reply[k] = 1
  end
end
return reply
