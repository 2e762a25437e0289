-- void.lua makes certain that epochs never deduct for request ids that they have not deducted for
-- yet: it leaves a void record for each, which stays as long as the epoch.
--
-- KEYS  per epoch: balance hash, r0, r1, v (records.lua)
-- ARGV  record window in ms (decimal, at least 1), the void record (binary)
--       then per epoch: activation (decimal, 1 … 2^53 - 1), how many ids (decimal, at least 1), the
--       request ids (binary)
-- Returns four elements per id: verdict, balance in minor units (or why, for BROKEN), last seq, the
-- record found (RECORDED; binary) or 0.
-- Errors: NOTDONE, HALFDONE (shared.lua); NOTDONE REPLACED: another memory.
--
-- Atomic because the look-up and the void record decide together whether the id is deducted for.
-- Idempotent by the id: a repetition answers RECORDED with the void record and writes nothing.
-- Keeps I4 and I5: what was cancelled has no effect, whatever is late.

-- disagrees returns a reply unless the arguments are what the header says.
local function disagrees()
  local k, at = 1, 3
  while k <= #KEYS do
    local ids = tonumber(ARGV[at + 1]) or 0
    if ids < 1 then break end
    k, at = k + 4, at + 2 + ids
  end
  local window = quantity(ARGV[1])
  if not window or window < 1 or #KEYS == 0 or k ~= #KEYS + 1 or at ~= #ARGV + 1 then
    return failed('ARGUMENTS are not what the script expects')
  end
  return nil
end

local fault = disagrees() or another_memory()
if fault then return fault end
local window, void, now = tonumber(ARGV[1]), ARGV[2], nil
now, fault = keep.clock()
if fault then return fault end

local reply, n = {}, 0
local at = 2
for k = 1, #KEYS, 4 do
  local balance_key = KEYS[k]
  local activation, ids = ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 2
  local bucket, _, slice, found, unreadable
  bucket, fault, _, slice = load(balance_key, true)
  if fault then return fault end
  local stands = standing(bucket, activation)
  local wanted = {}
  for i = 1, ids do wanted[i] = ARGV[at + i] end
  if not (bucket.broken or bucket.missing) then
    found, unreadable, fault = keep.look_up(slice, k + 1, now, window, wanted, ids)
    if fault then return fault end
  end
  local made, list = {}, {}
  for i, id in ipairs(wanted) do
    local verdict, why = stands, bucket.broken
    local known = found and (made[id] or found[i])
    if unreadable then
      verdict, why = BROKEN, unreadable
    elseif known then
      verdict = RECORDED
    elseif not verdict then
      verdict, made[id] = OK, void
      list[#list + 1], list[#list + 2] = id, void
    end
    local told = verdict < EPOCH_GONE or verdict > BROKEN
    reply[n + 1] = verdict
    reply[n + 2], reply[n + 3] = why or (told and bucket.balance) or 0, told and bucket.seq or 0
    reply[n + 4] = known or 0
    n = n + 4
  end
  at = at + ids
  if #list > 0 then
    fault = keep.write(KEYS[k + 3], list, #list)
    if fault then return fault end
  end
end
return reply
