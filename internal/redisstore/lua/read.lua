-- read.lua returns entries and late sums (bucket.Entries.Read). It changes nothing.
--
-- KEYS: see shared.lua and entries.lua; KEYS[8] late, a hash: `bucket:epoch` -> `units slice`
-- ARGV[4] MessagePack array of three arrays: buckets (decimal texts), epochs, names in `late`
-- Returns seven integers per element: verdict, epoch, balance, taken, given back, last grant, late sum.
local m, wrong = memory(8, 4)
if not m then return wrong end
local buckets, epochs, names = unpack(unpackm(ARGV[4]))
local entries, answer = load(buckets), {}
local late = call('HMGET', KEYS[8], unpack(names))
for i = 1, #buckets do
  local e, epoch, verdict = entries[buckets[i]], epochs[i], ACCEPTED
  local units = 0
  if late[i] then units = number(match(late[i], '^(%d+) ')) end
  if e.epoch == 0 and e.newest == epoch then verdict = LOST
  elseif e.epoch ~= epoch then verdict = NOT_FOUND
  elseif e.broken then verdict = BROKEN
  elseif e.state == 'closed' then verdict = CLOSED
  elseif e.state ~= '' then verdict = MOVING
  end
  if not units then verdict, units = BROKEN, 0 end
  figures(answer, verdict, e)
  answer[#answer + 1] = units
end
return answer
