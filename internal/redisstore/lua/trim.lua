-- trim.lua forgets the beginning of logs.
--
-- KEYS  per bucket: log stream
-- ARGV  per bucket: epoch and seq (decimal, 0 … 2^53 - 1) of the first entry that stays
-- Returns how many entries went. Errors: NOTDONE, HALFDONE (shared.lua).
--
-- Atomic because the last entry, which tells a late Open that the epoch was there, must stay
-- whatever is asked for, also when it is appended meanwhile. Idempotent: what is gone is gone. A
-- log that is not a stream is left alone. Keeps I7: only what is in the ledger is ever asked for.

if #KEYS == 0 or #ARGV ~= 2 * #KEYS then
  return failed('ARGUMENTS are not what the script expects')
end

-- last_entry returns the id of a log's last entry; nil when there is none, or the key is no log;
-- nil and the reply of the failed call.
local function last_entry(key)
  local kind = redis.pcall('TYPE', key)
  if kind.err then return nil, failed(kind.err) end
  if kind.ok ~= 'stream' then return nil end
  local info = redis.pcall('XINFO', 'STREAM', key)
  if info.err then return nil, failed(info.err) end
  for i = 1, #info, 2 do
    if info[i] == 'last-entry' and info[i + 1] then return info[i + 1][1] end
  end
  return nil
end

local gone = 0
for k = 1, #KEYS do
  local epoch, seq = ARGV[2 * k - 1], ARGV[2 * k]
  local last, fault = last_entry(KEYS[k])
  if fault then return fault end
  if last then
    local first = epoch .. '-' .. seq
    local last_epoch, last_seq = string.match(last, '^(%d+)%-(%d+)$')
    last_epoch, last_seq = tonumber(last_epoch), tonumber(last_seq)
    if last_epoch < tonumber(epoch) or
      (last_epoch == tonumber(epoch) and last_seq < tonumber(seq)) then
      first = last
    end
    local done = redis.pcall('XTRIM', KEYS[k], 'MINID', '=', first)
    if type(done) == 'table' then return failed(done.err) end
    written = true
    gone = gone + done
  end
end
return gone
