-- copy_read.lua reads a part of a bucket that is being moved (bucket.Copies.ReadCopy). It changes nothing.
--
-- KEYS[1] marker: see shared.lua    KEYS[2] epoch: see entries.lua    KEYS[3] a hash whose fields begin with
-- the bucket: a page of records or of counters, or `late`
-- ARGV[4] bucket   ARGV[5] its closed epoch   ARGV[6] cursor, `0` at first   ARGV[7] how many fields to scan
-- Returns {since, next cursor, field, value, …}, or 0 if the bucket is not being moved at that epoch.
local m, wrong = memory(3, 7)
if not m then return wrong end
if call('HGET', KEYS[2], ARGV[4]) ~= ARGV[5] .. ' moving' then return 0 end
local scanned = call('HSCAN', KEYS[3], ARGV[6], 'MATCH', ARGV[4] .. ':*', 'COUNT', ARGV[7])
return {m.since, scanned[1], scanned[2]}
