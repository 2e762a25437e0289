-- filter_set.lua fills the filter of ledger mode (bucket.Filter.Set).
--
-- KEYS[1] hash: bucket -> fill and balance (minor units), two little-endian doubles
-- ARGV[1] MessagePack array of four arrays:
--   buckets (decimal texts), fills (integers, 0 … 2^52), outstanding (units), added (units)
-- Returns the number of buckets that changed.
--
-- It adds `added` to a content of fill - 1. It replaces a content that is missing, unreadable or of a smaller
-- fill by {fill, outstanding}. Any other content stays. So a repeated or late set changes nothing. It keeps
-- I9: a lost set costs one stale take.
if #KEYS ~= 1 or #ARGV ~= 1 then return redis.error_reply('ARGUMENTS of filter_set') end
local call, sunpack, spack = redis.call, struct.unpack, struct.pack
local MAX, MAX_FILL, FAR = 9007199254740991, 4503599627370496, 4294967296
local buckets, fills, outstanding, added = unpack(cmsgpack.unpack(ARGV[1]))

local values = redis.pcall('HMGET', KEYS[1], unpack(buckets))
if values.err then
  if not string.find(values.err, 'WRONGTYPE', 1, true) then return values end
  call('UNLINK', KEYS[1])
  values = {}
end
local set, m = {}, 0
for i = 1, #buckets do
  local text, fill, balance, to = values[i], nil, nil, nil
  if text and #text == 16 then fill, balance = sunpack('<dd', text) end
  local readable = fill and fill >= 0 and fill <= MAX_FILL and fill % 1 == 0 and fill <= fills[i] + FAR and
    balance >= 0 and balance <= MAX and balance % 1 == 0
  if not readable or fill < fills[i] - 1 then
    to = outstanding[i]
  elseif fill == fills[i] - 1 then
    to = balance + added[i]
    if to > MAX then to = outstanding[i] end
  end
  if to then
    set[m + 1], set[m + 2] = buckets[i], spack('<dd', fills[i], to)
    m = m + 2
  end
end
if m > 0 then call('HSET', KEYS[1], unpack(set)) end
return m / 2
