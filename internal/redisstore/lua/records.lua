-- records.lua: what deduct.lua and void.lua know of the request records of store mode. It is put in
-- front of them, after shared.lua.
--
-- An epoch keeps its void records in a hash of their own, v: request id (long ones as their hash, records.go) -> record. They stay as long
-- as the epoch: who was told that an id is void must never hear "accepted" for it, and the ledger, which
-- knows, is not asked before that (I4, I7). So v has no expiry.
--
-- It keeps the records of deductions in two hashes, r0 and r1: request id -> record. The lane's own clock
-- cuts time into slices as long as the record window: slice = floor(ms / window). What is recorded
-- in slice s is written to r(s mod 2), and the field `slice` of the balance hash says which slice
-- was written last, and the window: `<slice>/<window in ms>`. Looked up are the present slice and
-- the one before it, so that a record is found for one window at least and for two at most; and v. The
-- first record of a slice unlinks what is two slices old, or both hashes when more has passed.
--
-- The window of an epoch is that of its first record, whatever nodes are configured with later:
-- slices of two lengths have nothing to do with one another.
-- A clock that went back counts as being in the slice that was written last until it has caught
-- up: nothing is forgotten early, and what is recorded meanwhile stays that much longer. A clock
-- that jumped ahead forgets early: it is the lane's own clock that the window is measured by.
-- Expiry is for epochs that nobody writes to any more: each hash expires as a whole, two windows
-- (and a second) after its first record, when no look-up can want it.
--
-- A record is made by Go (records.go); of a deduction, the script adds the seq as an unsigned
-- big-endian number of 5 or 7 bytes.

--
-- All of it is made only in a call with records, whose first argument is the window: a script makes
-- its functions anew in every call, and ledger mode shall not pay for that.
local keep = {}
if ARGV[1] ~= '0' then

-- How much longer than two windows the hashes are kept, in ms.
local MARGIN_MS = 1000
-- unpack puts its values on Lua's stack, which has room for 8,000.
local MOST_AT_ONCE = 1000
-- Up to so many ids are asked for at once what asking whether there is a hash costs.
local FEW_IDS = 3

-- keep.clock returns the lane's time in ms; or nil and the reply of the failed call.
function keep.clock()
  local time = command('TIME')
  if time.err then return nil, failed(time.err) end
  return tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
end

-- Of the bucket that was looked at last: the present slice, the one written last (nil before the first record), the
-- window, and the text of the last two.
local slice, last, window, slice_text

-- find_slice sets them. Returns nil, or what is wrong with the field.
local function find_slice(text, now, configured)
  if text and text == slice_text then return nil end -- most buckets are in the same one
  last, window, slice_text = nil, configured, nil
  if text then
    local number, length = match(text, '^(%d+)/(%d+)$')
    last, window = quantity(number), quantity(length)
    if not last or not window or window == 0 then
      return 'field slice of the balance is not what it must be'
    end
  end
  slice = floor(now / window)
  if last then slice, slice_text = max(slice, last), text end
  return nil
end

-- keep.look_up returns the records of a list of n ids by their places in it (false or nil: none); or nil and why the
-- records are broken; or nil, nil and the reply of the failed call. r0 is the place of that key, which r1 and v follow;
-- text is the slice of the balance hash.
function keep.look_up(text, r0, now, configured, ids, n)
  local why = find_slice(text, now, configured)
  if why then return nil, why end
  local found
  for back = 1, -1, -1 do -- the slice before, the present one, the voids
    local key, size = KEYS[r0 + 2], 1
    if back >= 0 then
      -- Otherwise the hash still holds what is two slices older.
      key = (not last or last >= slice - back) and KEYS[r0 + (slice - back) % 2]
    end
    if key and (n > FEW_IDS or back < 0) then
      -- A hash that is not there, as v mostly is, is not asked for each id.
      size = command('HLEN', key)
      if type(size) == 'table' then
        if is_wrong_type(size.err) then return nil, 'the request records are not a hash' end
        return nil, nil, failed(size.err)
      end
    end
    for first = 1, key and size > 0 and n or 0, MOST_AT_ONCE do
      local final = min(n, first + MOST_AT_ONCE - 1)
      local got = command('HMGET', key, unpack(ids, first, final))
      if got.err then
        if is_wrong_type(got.err) then return nil, 'the request records are not a hash' end
        return nil, nil, failed(got.err)
      end
      if found then
        for i = first, final do
          found[i] = got[i - first + 1] or found[i]
        end
      else
        found = got
      end
    end
  end
  return found or {}
end

-- change runs a write that cannot fail but by a defect or an ACL. Returns nil, or the reply of the
-- failed call.
local function change(...)
  local done = command(...)
  if type(done) == 'table' then return failed(done.err) end
  written = true
  return nil
end

-- turn moves the bucket that was looked at last on to the present slice. Returns nil, or the reply of the failed call.
local function turn(balance_key, r0)
  local fault = change('HSET', balance_key, 'slice',
    text_of(slice) .. '/' .. text_of(window))
  if not fault and last then
    fault = change('UNLINK', KEYS[r0 + slice % 2])
  end
  if not fault and last and last < slice - 1 then
    fault = change('UNLINK', KEYS[r0 + (slice - 1) % 2])
  end
  return fault
end

-- keep.write writes records into a hash, given as a list of id, record, id, record …, n together, none of which
-- keep.look_up has found. Returns nil, or the reply of the failed call.
function keep.write(key, list, n)
  local fault
  for first = 1, n, MOST_AT_ONCE do
    if fault then return fault end
    fault = change('HSET', key, unpack(list, first, min(n, first + MOST_AT_ONCE - 1)))
  end
  return fault
end

-- keep.remember writes records of deductions from the bucket that was looked at last: see keep.write.
function keep.remember(balance_key, r0, list, n)
  local fault
  local key = KEYS[r0 + slice % 2]
  if last ~= slice then fault = turn(balance_key, r0) end
  fault = fault or keep.write(key, list, n)
  if not fault and last ~= slice then
    fault = change('PEXPIRE', key, text_of(2 * window + MARGIN_MS))
  end
  return fault
end

end
