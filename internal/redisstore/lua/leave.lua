-- leave.lua deletes the logs of buckets that have left the lane.
--
-- KEYS  per bucket: log stream
-- ARGV  per bucket: the newest epoch that lived here (decimal, 1 … 2^53 - 1)
-- Returns how many were deleted. Errors: NOTDONE, HALFDONE (shared.lua).
--
-- Atomic because the comparison of the log's end with that epoch decides, with the deletion, that the
-- bucket has not come back since. Idempotent: what is gone is gone. A log that is not a stream is deleted
-- too: it holds nothing of ours. Keeps I7: epochs up to that one have ended in SQL.

if #KEYS == 0 or #ARGV ~= #KEYS then
  return failed('ARGUMENTS are not what the script expects')
end

local gone = 0
for k = 1, #KEYS do
  local kind = redis.pcall('TYPE', KEYS[k])
  if kind.err then return failed(kind.err) end
  local later = false
  if kind.ok == 'stream' then
    local info = redis.pcall('XINFO', 'STREAM', KEYS[k])
    if info.err then return failed(info.err) end
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then
        later = tonumber(string.match(info[i + 1], '^%d+')) > tonumber(ARGV[k])
      end
    end
  end
  if kind.ok ~= 'none' and not later then
    local done = redis.pcall('DEL', KEYS[k])
    if type(done) == 'table' then return failed(done.err) end
    written = true
    gone = gone + 1
  end
end
return gone
