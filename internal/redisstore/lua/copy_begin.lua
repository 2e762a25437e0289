-- copy_begin.lua removes the fields of a bucket before its copy (bucket.Copies.BeginCopy).
--
-- KEYS[1] marker: see shared.lua    KEYS[2] … KEYS[7]: see entries.lua    KEYS[8] a hash to remove the
-- bucket's fields from: a page of records or of counters, or `late`
-- ARGV[4] bucket   ARGV[5] its closed epoch   ARGV[6] attempt   ARGV[7] cursor, `0` at first
-- ARGV[8] how many fields to scan
-- Returns {verdict, next cursor}. The caller repeats it for each hash until the cursor is 0. A newer attempt
-- replaces an older one, whose parts are refused from then on.
local m, wrong = memory(8, 8)
if not m then return wrong end
local epoch, entries = tonumber(ARGV[5]), load({ARGV[4]})
local e = entries[ARGV[4]]
if e.newest > epoch or e.epoch == epoch and sub(e.state, 1, 3) ~= 'cop' then return {CLOSED, '0'} end
if e.epoch ~= epoch or e.state ~= 'copying ' .. ARGV[6] then
  begin(e, epoch, 'copying ' .. ARGV[6])
  save(entries)
end
local scanned = call('HSCAN', KEYS[8], ARGV[7], 'MATCH', ARGV[4] .. ':*', 'COUNT', ARGV[8])
local fields, gone = scanned[2], {}
for i = 1, #fields, 2 do gone[#gone + 1] = fields[i] end
for i = 1, #gone, 1000 do call('HDEL', KEYS[8], unpack(gone, i, math.min(i + 999, #gone))) end
return {ACCEPTED, scanned[1]}
