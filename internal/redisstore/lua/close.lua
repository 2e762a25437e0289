-- close.lua closes epochs (bucket.Entries.Close).
--
-- KEYS: see shared.lua and entries.lua
-- ARGV[4] MessagePack array of three values: buckets (decimal texts), epochs, the new state: `closed`, or
--   `moving` if the bucket is to be copied to another partition
-- Returns six integers per element: verdict, epoch, balance, taken, given back, last grant.
--
-- If there is no entry it writes one, so that a late open or grant is refused. Repeating it returns the
-- same figures.
local m, wrong = memory(7, 4)
if not m then return wrong end
local buckets, epochs, state = unpack(unpackm(ARGV[4]))
local entries, answer = load(buckets), {}
for i = 1, #buckets do
  local e, epoch, verdict = entries[buckets[i]], epochs[i], ACCEPTED
  if e.newest > epoch then verdict = CLOSED
  elseif e.epoch == epoch then
    if sub(e.state, 1, 3) == 'cop' then verdict = CLOSED
    elseif e.broken then verdict = BROKEN
    elseif e.state == '' or e.state == 'closed' and state == 'moving' then e.state, e.dirty = state, true
    end
  elseif e.newest == epoch then verdict = LOST
  else begin(e, epoch, state)
  end
  figures(answer, verdict, e)
end
save(entries)
return answer
