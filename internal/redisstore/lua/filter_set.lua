-- filter_set.lua fills the filter of ledger mode (bucket.Filter.Set).
--
-- KEYS[1] hash: bucket -> fill      KEYS[2] hash: bucket -> balance, minor units
-- ARGV[1] MessagePack array of four arrays:
--   buckets (decimal texts), fills (integers, 0 … 2^52), outstanding (units), added (units)
-- Returns the number of buckets that changed.
--
-- A content of fill - 1 gets `added` more; a content that is missing, unreadable or of a smaller fill
-- becomes {fill, outstanding}; any other stays. So repeating a set, or sending it late, changes nothing.
-- It keeps I9: a set that is lost costs one stale take.
if #KEYS ~= 2 or #ARGV ~= 1 then return redis.error_reply('ARGUMENTS of filter_set') end
local call, tonumber, find = redis.call, tonumber, string.find
local MAX, MAX_FILL, FAR = 9007199254740991, 4503599627370496, 4294967296
local buckets, fills, outstanding, added = unpack(cmsgpack.unpack(ARGV[1]))

-- number returns the number that a text of digits stands for, nil if it is above `most` or no number.
local function number(text, most)
  if not text or #text > 16 or find(text, '^%d+$') == nil then return nil end
  local n = tonumber(text)
  if n <= most then return n end
  return nil
end

-- read returns the fields of a hash; a key of another type is removed first.
local function read(key)
  local values = redis.pcall('HMGET', key, unpack(buckets))
  if values.err then
    if not find(values.err, 'WRONGTYPE', 1, true) then error(values.err) end
    call('UNLINK', key)
    values = {}
  end
  return values
end

local was, balances = read(KEYS[1]), read(KEYS[2])
local new_fills, new_balances, m = {}, {}, 0
for i = 1, #buckets do
  local fill, balance, to = number(was[i], MAX_FILL), number(balances[i], MAX), nil
  if not fill or not balance or fill > fills[i] + FAR or fill < fills[i] - 1 then
    to = outstanding[i]
  elseif fill == fills[i] - 1 then
    to = balance + added[i]
    if to > MAX then to = outstanding[i] end
  end
  if to then
    new_fills[m + 1], new_fills[m + 2] = buckets[i], fills[i]
    new_balances[m + 1], new_balances[m + 2] = buckets[i], to
    m = m + 2
  end
end
if m > 0 then
  call('HSET', KEYS[1], unpack(new_fills))
  call('HSET', KEYS[2], unpack(new_balances))
end
return m / 2
