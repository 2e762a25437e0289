-- copy_add.lua writes a part of the copy of a bucket, or marks it complete (bucket.Copies.AddCopy, EndCopy).
--
-- KEYS[1] marker: see shared.lua    KEYS[2] epoch: see entries.lua    KEYS[3] page of records of the present
-- slice    KEYS[4] page of counters    KEYS[5] late    KEYS[6] set of changes
-- ARGV[4] MessagePack array: slice (decimal text), bucket (decimal text), epoch (decimal text), attempt,
--   records, counters, late (arrays of field, value, …), since (the first incarnation whose records could
--   be rolled back at the source), end (1: the copy is complete)
-- Returns a verdict. Records that could be rolled back at the source get this incarnation. The others still
-- answer repeats and cannot be rolled back.
local m, wrong = memory(6, 4)
if not m then return wrong end
local slice, bucket, epoch, attempt, records, counters, late, since, ends = unpack(unpackm(ARGV[4]))
if slice ~= m.slice then return other_slice(m) end
local is = call('HGET', KEYS[2], bucket)
if ends == 1 and is == epoch .. ' copied' then return ACCEPTED end
if is ~= epoch .. ' copying ' .. attempt then return CLOSED end
call('SCARD', KEYS[6])
for k = 3, 5 do call('HLEN', KEYS[k]) end
local incarnation, names = tonumber(ARGV[2]), {}
for i = 2, #records, 2 do
  local values = {unpackm(records[i])}
  values[3] = values[3] >= since and incarnation or 0
  records[i] = packm(unpack(values))
end
for i = 1, #late, 2 do
  names[#names + 1] = late[i]
  late[i + 1] = match(late[i + 1], '^(%d+)') .. ' ' .. m.slice
end
if #names > 0 then call('SADD', KEYS[6], unpack(names)) end
if #records > 0 then call('HSET', KEYS[3], unpack(records)) end
if #counters > 0 then call('HSET', KEYS[4], unpack(counters)) end
if #late > 0 then call('HSET', KEYS[5], unpack(late)) end
if ends == 1 then call('HSET', KEYS[2], bucket, epoch .. ' copied') end
return ACCEPTED
