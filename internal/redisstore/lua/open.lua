-- open.lua opens epochs (bucket.Entries.Open).
--
-- KEYS: see shared.lua and entries.lua
-- ARGV[4] MessagePack array of three arrays: buckets (decimal texts), epochs, copies (the closed epoch
--   whose copy must be complete here, or 0)
-- Returns six integers per element: verdict, epoch, balance, taken, given back, last grant.
--
-- Repeating it, even late, changes nothing: an epoch that was closed or lost does not open again.
local m, wrong = memory(7, 4)
if not m then return wrong end
local buckets, epochs, copies = unpack(unpackm(ARGV[4]))
local entries, answer = load(buckets), {}
for i = 1, #buckets do
  local e, epoch, copy, verdict = entries[buckets[i]], epochs[i], copies[i], ACCEPTED
  if e.newest > epoch then verdict = CLOSED
  elseif e.epoch == epoch then
    if e.broken then verdict = BROKEN
    elseif e.state == 'moving' then verdict = MOVING
    elseif e.state ~= '' then verdict = CLOSED
    end
  elseif e.newest == epoch then verdict = LOST
  elseif e.epoch > 0 and sub(e.state, 1, 7) == 'copying' then verdict = MOVING
  elseif copy > 0 and not (e.epoch == copy and e.state == 'copied') then verdict = MOVING
  else begin(e, epoch, '')
  end
  figures(answer, verdict, e)
end
save(entries)
return answer
