-- changed.lua returns sums of buckets that changed (bucket.Changes.Changed). It changes nothing.
--
-- KEYS[1] marker: see shared.lua    KEYS[2] … KEYS[7]: see entries.lua    KEYS[8] late, a hash:
-- `bucket:epoch` -> `units slice`    KEYS[9] set of changes, of `bucket` and `bucket:epoch`
-- ARGV[4] cursor, `0` at first   ARGV[5] about how many to return
-- Returns {next cursor, rows}: a row is bucket (text), epoch, 1 for a late sum, verdict, taken, given back,
--   late sum.
local m, wrong = memory(9, 5)
if not m then return wrong end
local scanned = call('SSCAN', KEYS[9], ARGV[4], 'COUNT', ARGV[5])
local members, buckets, names = scanned[2], {}, {}
for i = 1, #members do
  if find(members[i], '^%d+$') then buckets[#buckets + 1] = members[i]
  elseif find(members[i], '^%d+:%d+$') then names[#names + 1] = members[i]
  end
end
local rows, n = {}, 0
local function row(id, epoch, late, verdict, taken, given, units)
  rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = id, epoch, late, verdict
  rows[n + 5], rows[n + 6], rows[n + 7] = taken, given, units
  n = n + 7
end
if #buckets > 0 then
  local entries = load(buckets)
  for i = 1, #buckets do
    local e, verdict = entries[buckets[i]], ACCEPTED
    if e.epoch == 0 then verdict = LOST
    elseif e.broken then verdict = BROKEN
    elseif e.state == 'closed' then verdict = CLOSED
    elseif e.state ~= '' then verdict = MOVING
    end
    if verdict == LOST or verdict == BROKEN then row(e.id, e.epoch == 0 and e.newest or e.epoch, 0, verdict, 0, 0, 0)
    else row(e.id, e.epoch, 0, verdict, e.taken, e.given, 0)
    end
  end
end
if #names > 0 then
  local late = call('HMGET', KEYS[8], unpack(names))
  for i = 1, #names do
    local id, epoch = match(names[i], '^(%d+):(%d+)$')
    local units = late[i] and number(match(late[i], '^(%d+) '))
    row(id, tonumber(epoch), 1, units and ACCEPTED or late[i] and BROKEN or LOST, 0, 0, units or 0)
  end
end
return {scanned[1], rows}
