-- grant.lua adds numbered grants to balances (bucket.Entries.Grant).
--
-- KEYS: see shared.lua and entries.lua
-- ARGV[4] MessagePack array of four arrays: buckets (decimal texts), epochs, numbers, amounts (units)
-- Returns six integers per element: verdict, epoch, balance, taken, given back, last grant.
--
-- A grant whose number is not above the last one's is done already, so repeating it changes nothing.
local m, wrong = memory(7, 4)
if not m then return wrong end
local buckets, epochs, numbers, amounts = unpack(unpackm(ARGV[4]))
local entries, answer = load(buckets), {}
for i = 1, #buckets do
  local e, epoch, verdict = entries[buckets[i]], epochs[i], ACCEPTED
  if e.epoch > epoch then verdict = CLOSED
  elseif e.epoch < epoch then verdict = absent(e, epoch)
  elseif e.state == '' or e.state == 'closed' then
    if e.broken then verdict = BROKEN
    elseif e.state == 'closed' then verdict = CLOSED
    elseif numbers[i] > e.grant + 1 then verdict = GAP
    elseif numbers[i] == e.grant + 1 then
      if e.balance + amounts[i] > MAX then verdict = BROKEN
      else e.balance, e.grant, e.dirty = e.balance + amounts[i], numbers[i], true
      end
    end
  else verdict = MOVING
  end
  figures(answer, verdict, e)
end
save(entries)
return answer
