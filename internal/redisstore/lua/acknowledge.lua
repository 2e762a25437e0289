-- acknowledge.lua removes buckets from the set of changes if SQL has their sums
-- (bucket.Changes.Acknowledge).
--
-- KEYS: see changed.lua
-- ARGV[4] MessagePack array of six arrays: buckets (decimal texts), epochs, taken, given back; then names
--   in `late` and late sums
-- Returns how many it removed. A bucket that has changed since it was read stays.
local m, wrong = memory(9, 4)
if not m then return wrong end
local buckets, epochs, taken, given, names, units = unpack(unpackm(ARGV[4]))
local off, n = {}, 0
if #buckets > 0 then
  local entries = load(buckets)
  for i = 1, #buckets do
    local e = entries[buckets[i]]
    if e.epoch == epochs[i] and e.taken == taken[i] and e.given == given[i] then
      n = n + 1
      off[n] = buckets[i]
    end
  end
end
if #names > 0 then
  local late = call('HMGET', KEYS[8], unpack(names))
  for i = 1, #names do
    if late[i] and number(match(late[i], '^(%d+) ')) == units[i] then
      n = n + 1
      off[n] = names[i]
    end
  end
end
if n > 0 then call('SREM', KEYS[9], unpack(off)) end
return n
