-- sweep.lua removes counters whose windows have ended, and late sums that are final and acknowledged
-- (bucket.Changes.Sweep). A call scans a part of one hash.
--
-- KEYS[1] marker: see shared.lua    KEYS[2] a page of counters, or `late`    KEYS[3] set of changes
-- ARGV[4] `counters` or `late`   ARGV[5] cursor, `0` at first   ARGV[6] about how many fields to scan
-- Returns {next cursor, how many it removed}.
--
-- A late sum is final two slices after it last grew, because the records that could raise it are gone then. A
-- counter is kept for a minute after its end, for clocks that step back.
local m, wrong = memory(3, 6)
if not m then return wrong end
local scanned = call('HSCAN', KEYS[2], ARGV[5], 'COUNT', ARGV[6])
local fields, gone = scanned[2], {}
local latest = clock() - 60000
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if ARGV[4] == 'counters' then
    local expires = #value >= 8 and sunpack('<d', value) or 0
    if expires > 0 and expires < latest then gone[#gone + 1] = field end
  else
    local slice = number(match(value, '^%d+ (%d+)$'))
    if slice and slice + 2 <= tonumber(m.slice) and call('SISMEMBER', KEYS[3], field) == 0 then
      gone[#gone + 1] = field
    end
  end
end
for i = 1, #gone, 1000 do call('HDEL', KEYS[2], unpack(gone, i, math.min(i + 999, #gone))) end
return {scanned[1], #gone}
