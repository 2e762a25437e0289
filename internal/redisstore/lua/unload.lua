-- unload.lua makes counters of limits unknown, because the ledger has given some of them back: whoever counts
-- for them next loads them from there.
--
-- KEYS  per order: root of the counters (limits.lua)
-- ARGV  per order: how many limits (decimal, at least 1), then as in deduct.lua: version, ahead and ten
--       arguments per limit
-- Returns how many orders there were. Errors: NOTDONE, HALFDONE (shared.lua).
--
-- Atomic because nobody may count between the look-up of the page and the mark. Idempotent in effect: a counter
-- that is unknown twice is loaded once, by its latest mark, so that what was read from the ledger before is
-- refused. Keys that are not what they must be are left to the next deduction. Keeps I5: what a limit counts is
-- what the ledger kept.

local at = 0
for k = 1, #KEYS do
  at = at + 3 + 10 * (tonumber(ARGV[at + 1]) or 0)
end
if #KEYS == 0 or at ~= #ARGV then
  return failed('ARGUMENTS are not what the script expects')
end

local time = redis.pcall('TIME')
if time.err then return failed(time.err) end
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
at = 0
for k = 1, #KEYS do
  local o
  o, at = counts.parse(KEYS[k], tonumber(ARGV[at + 1]), at + 1)
  local _, fault = counts.unload(o, now)
  if fault then return fault end
end
return #KEYS
