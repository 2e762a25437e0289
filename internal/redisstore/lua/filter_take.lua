-- filter_take.lua takes amounts from the filter of ledger mode (bucket.Filter.Take).
--
-- KEYS[1] hash: bucket -> fill and balance (minor units), two little-endian doubles. Texts in two hashes
-- would cost twice as much, and a bit field indexed by bucket would be as long as the largest id.
-- ARGV[1] MessagePack array of five arrays:
--   buckets (decimal texts), fills (integers, 0 … 2^52), back (units taken earlier and not committed),
--   counts (how many amounts belong to each bucket), amounts (units, 1 … 2^53-1, bucket by bucket)
-- Returns integers: fill and balance of each bucket (fill -1 means stale: nothing was done), then the indexes
-- (from 1) of the amounts that did not fit.
--
-- It is atomic because it is one script: two takes never get the same unit of one content. It is not
-- idempotent: after a lost reply the taken units are missing until the next fill. It keeps I9: no outcome
-- depends on its answer.
if #KEYS ~= 1 or #ARGV ~= 1 then return redis.error_reply('ARGUMENTS of filter_take') end
local call, sunpack, spack = redis.call, struct.unpack, struct.pack
local MAX, MAX_FILL, FAR = 9007199254740991, 4503599627370496, 4294967296
local buckets, known, back, counts, amounts = unpack(cmsgpack.unpack(ARGV[1]))

local values = redis.pcall('HMGET', KEYS[1], unpack(buckets))
if values.err then
  if not string.find(values.err, 'WRONGTYPE', 1, true) then return values end
  call('UNLINK', KEYS[1])
  values = {}
end
local answer, misses, k = {}, {}, 0
local set, m, bad, at = {}, 0, {}, 0
for i = 1, #buckets do
  local n = counts[i]
  local text, fill, balance = values[i], nil, nil
  if text and #text == 16 then fill, balance = sunpack('<dd', text) end
  if fill and fill >= 0 and fill <= MAX_FILL and fill % 1 == 0 and fill <= known[i] + FAR and
    balance >= 0 and balance <= MAX and balance % 1 == 0 then
    if fill < known[i] then
      answer[2 * i - 1], answer[2 * i] = -1, 0
    else
      local left = balance + back[i]
      if left > MAX then left = MAX end
      for j = at + 1, at + n do
        local a = amounts[j]
        if a <= left then
          left = left - a
        else
          k = k + 1
          misses[k] = j
        end
      end
      if left ~= balance then
        set[m + 1], set[m + 2] = buckets[i], spack('<dd', fill, left)
        m = m + 2
      end
      answer[2 * i - 1], answer[2 * i] = fill, left
    end
  else
    if text then bad[#bad + 1] = buckets[i] end
    answer[2 * i - 1], answer[2 * i] = -1, 0
  end
  at = at + n
end
if m > 0 then call('HSET', KEYS[1], unpack(set)) end
if #bad > 0 then call('HDEL', KEYS[1], unpack(bad)) end
local n = #answer
for i = 1, k do answer[n + i] = misses[i] end
return answer
