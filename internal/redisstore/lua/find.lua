-- find.lua returns records (bucket.Counter.Find). It changes nothing.
--
-- KEYS[1] marker: see shared.lua    KEYS[2] epoch: see entries.lua
-- then two keys per page: records of the present slice and of the one before
-- ARGV[4] MessagePack array: slice (decimal text), record window (ms), buckets (decimal texts), pages; a
--   page is {fields `bucket:id`, buckets (indexes)}
-- Returns {young, answers}: young is 1 if this memory is younger than the record window. answers has
--   verdict and record (or 0) of each element, in the order of the pages.
local m, wrong = memory(2, 4)
if not m then return wrong end
local slice, record_window, buckets, pages = unpack(unpackm(ARGV[4]))
if slice ~= m.slice then return other_slice(m) end
local epoch = call('HMGET', KEYS[2], unpack(buckets))
local answer, n = {}, 0
for p = 1, #pages do
  local fields, of = unpack(pages[p])
  local found = call('HMGET', KEYS[2 * p + 1], unpack(fields))
  local older = call('HMGET', KEYS[2 * p + 2], unpack(fields))
  for i = 1, #fields do
    local state = select(2, epoch_of(epoch[of[i]] or '0'))
    local record = found[i] or older[i]
    local verdict = record and KNOWN or NOT_FOUND
    if state and state ~= '' and state ~= 'closed' then verdict, record = MOVING, nil end
    answer[n + 1], answer[n + 2] = verdict, record or 0
    n = n + 2
  end
end
return {clock() - m.since_ms < record_window and 1 or 0, answer}
