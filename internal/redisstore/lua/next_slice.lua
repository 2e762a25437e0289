-- next_slice.lua advances the time slice of the records when its length has passed (bucket.Changes.Sweep).
--
-- KEYS[1] marker: see shared.lua    KEYS[2] … the pages of the slice before ARGV[4], hashes
-- ARGV[4] the present slice, as the caller knows it   ARGV[5] length of a slice, ms
-- Returns the present slice (text). Advancing removes the pages of the slice before, so that scripts always
-- see the records of one to two lengths. A slice that began in the future restarts now.
local m, wrong = memory(2, 5)
if not m then return wrong end
if m.slice ~= ARGV[4] then return m.slice end
local now = clock()
local began = number(call('HGET', KEYS[1], 'slice_ms'))
if not began or began > now then
  call('HSET', KEYS[1], 'slice_ms', now)
elseif now - began >= tonumber(ARGV[5]) then
  m.slice = string.format('%.0f', tonumber(m.slice) + 1)
  call('HSET', KEYS[1], 'slice', m.slice, 'slice_ms', now)
  for k = 2, #KEYS do call('UNLINK', KEYS[k]) end
end
return m.slice
