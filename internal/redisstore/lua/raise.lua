-- raise.lua makes buckets refuse deductions that were judged by an older definition (bucket.Entries.Raise).
--
-- KEYS[1] marker: see shared.lua      KEYS[2] limits: bucket -> newest version of its limits
-- ARGV[4] MessagePack array of two arrays: buckets (decimal texts), versions
-- Returns 1. A version only grows, so repeating it changes nothing.
local m, wrong = memory(2, 4)
if not m then return wrong end
local buckets, versions = unpack(unpackm(ARGV[4]))
for i = 1, #buckets do
  local known = call('HGET', KEYS[2], buckets[i])
  if not known or (number(known) or versions[i]) < versions[i] then
    call('HSET', KEYS[2], buckets[i], versions[i])
  end
end
return 1
