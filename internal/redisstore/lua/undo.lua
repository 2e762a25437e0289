-- undo.lua returns units of recorded deductions (bucket.Counter.Rollback and Cancel).
--
-- KEYS[1] marker: see shared.lua    KEYS[2] … KEYS[7]: see entries.lua    KEYS[8] late, a hash:
-- `bucket:epoch` -> `units slice`    KEYS[9] set of changes, of `bucket` and `bucket:epoch`
-- then three keys per page as in deduct.lua
-- ARGV[4] MessagePack array: slice (decimal text), record window (ms), buckets (decimal texts), terms,
--   elements
--   terms is an array per budget of limits {tag, kind, changed, length_ms, slot_ms, measure}
--   an element is {page (from 1), field `bucket:id`, bucket (index), terms (index, or 0), kind (1
--   rollback, 2 cancel), rollback id, amount (units, or 0 for all that is left)}
-- Returns {now_ms, answers}. answers has, per element, verdict, record or 0, what the rollback id returned, and
--   1 if that went to the late sum.
--
-- A record is a sequence of MessagePack values: amount (0 if the id was cancelled), epoch (of a cancelled id 1
-- if an earlier memory had been lost within the record window, else 0), incarnation,
-- fingerprint, nonce, limits version, value, own counts (0, or tag, count, …), when (ms). After the first
-- rollback two more follow: units rolled back, and {rollback id, units, …}. The record decides, and one
-- script changes it together with the balance, so that a rollback id returns its units once (I5).
local m, wrong = memory(9, 4)
if not m then return wrong end
local slice, record_window, buckets, terms, elements = unpack(unpackm(ARGV[4]))
if slice ~= m.slice then return other_slice(m) end
local MOST_IDS = 8
local now = clock()
local incarnation = tonumber(ARGV[2])
local young = now - m.since_ms < record_window
local entries, answer = load(buckets), {}
local records, counters, lates, dirty, changes = {}, {}, {}, {}, {}

-- record_of returns the record of a field of a page: {key, field, values}. values is nil if the record is missing.
local function record_of(page, field)
  local r = records[field]
  if not r then
    local now_key, before_key = KEYS[3 * page + 7], KEYS[3 * page + 8]
    local text = call('HGET', now_key, field)
    r = {key = now_key, field = field}
    if not text then
      text = call('HGET', before_key, field)
      if text then r.key = before_key end
    end
    if text then
      local read, values = pcall(function() return {unpackm(text)} end)
      if read and #values >= 9 and type(values[1]) == 'number' and type(values[9]) == 'number' then r.values = values
      else r.broken = true
      end
    end
    records[field] = r
  end
  return r
end

-- text_of encodes a record.
local function text_of(values)
  return packm(unpack(values))
end

-- share returns counts * left / amount, rounded up, of whole numbers up to 2^53 with left < amount. Lua's
-- numbers are exact only up to 2^53, so a larger product is never formed: whole * amount + rest is the
-- product of the remainder with the bits of left that were read, and rest stays below amount.
local function share(counts, left, amount)
  if counts * left <= MAX then return math.ceil(counts * left / amount) end
  local remainder, whole, rest, bits, bit = math.fmod(counts, amount), 0, 0, left, 4503599627370496
  local function add(n)
    if rest < amount - n then rest = rest + n
    else rest, whole = rest - (amount - n), whole + 1
    end
  end
  while bit >= 1 do
    whole = 2 * whole
    add(rest)
    if bits >= bit then
      bits = bits - bit
      add(remainder)
    end
    bit = bit / 2
  end
  return (counts - remainder) / amount * left + whole + (rest > 0 and 1 or 0)
end

-- kept returns what a deduction still counts in a limit: a call as long as a unit is left, and units in
-- proportion to what is left, rounded up.
local function kept(counts, measure, amount, back)
  local left = amount - back
  if left <= 0 then return 0 end
  if measure == 1 or left >= amount then return counts end
  if counts == amount then return left end
  return share(counts, left, amount)
end

-- unhit subtracts d of a deduction at an instant from a first_hit window, if the window has it. What no
-- longer counts leaves the window, which then begins with the oldest deduction that still counts.
local function unhit(s, at, d, length)
  local slots = s[4]
  if not slots or #slots == 0 or at < slots[1] or at >= began_of(slots) + length then return end
  local left, n = {}, 0
  for k = 1, #slots, 2 do
    local counted, gone = slots[k + 1], false
    if d > 0 and counted > 0 and slots[k] >= at then
      counted = math.max(counted - d, 0)
      s[3] = math.max(s[3] - (slots[k + 1] - counted), 0)
      d, gone = 0, counted == 0
    end
    if not gone then
      left[n + 1], left[n + 2] = slots[k], counted
      n = n + 2
    elseif n > 0 and left[n] == 0 then -- the pair before it said how far it reached back
      left[n], left[n - 1] = nil, nil
      n = n - 2
    end
  end
  s[4] = left
end

-- lower subtracts returned units from the windows in which the deduction was counted.
local function lower(page, bucket, values, limits, before, after)
  local key, field = KEYS[3 * page + 9], bucket .. ':' .. values[7]
  local c = counters[field]
  if not c then
    local text = call('HGET', key, field)
    local list = text and sections(text)
    c = {key = key, field = field, list = list or {}, expires = list and sunpack('<d', text)}
    counters[field] = c
  end
  if not c.expires then return end
  local own = {}
  if type(values[8]) == 'table' then
    for j = 1, #values[8], 2 do own[values[8][j]] = values[8][j + 1] end
  end
  for l = 1, #limits do
    local tag, kind, changed, length, slot, measure = unpack(limits[l])
    local counts = own[tag] or (measure == 1 and 1 or values[1])
    local d, at = kept(counts, measure, values[1], before) - kept(counts, measure, values[1], after), values[9]
    for j = 1, changed <= values[6] and d > 0 and #c.list or 0 do
      local s = c.list[j]
      if s[1] == tag then
        if kind == FIRST_HIT then unhit(s, at, d, length)
          c.dirty = true
        elseif s[4] then
          for k = 1, #s[4], 2 do
            if s[4][k] == at - at % slot then
              d = math.min(d, s[4][k + 1])
              s[4][k + 1], s[3] = s[4][k + 1] - d, math.max(s[3] - d, 0)
              c.dirty = true
            end
          end
        elseif at >= s[2] then
          s[3] = math.max(s[3] - d, 0)
          c.dirty = true
        end
      end
    end
  end
end

-- give_back adds units to the balance of an open epoch, or to the late sum. It returns 1 for the late sum.
local function give_back(e, values, units)
  if e.epoch == values[2] and e.state == '' then
    e.balance, e.given, e.dirty = e.balance + units, e.given + units, true
    changes[#changes + 1] = e.id
    return 0
  end
  local name = e.id .. ':' .. string.format('%.0f', values[2])
  if not lates[name] then
    local text = call('HGET', KEYS[8], name)
    lates[name] = text and number(match(text, '^(%d+) ')) or 0
  end
  lates[name] = lates[name] + units
  changes[#changes + 1] = name
  return 1
end

-- undo carries out one element. It returns the verdict, what the rollback id returned, and 1 if that was late.
local function undo(element, e, r)
  local page, _, _, at, kind, id, amount = unpack(element)
  local values = r.values
  if e.state and e.state ~= '' and e.state ~= 'closed' then return MOVING, 0, 0 end
  if e.epoch > 0 and e.broken or r.broken then return BROKEN, 0, 0 end
  if not values then
    if kind == 2 then
      r.values = {0, young and 1 or 0, incarnation, '', '', 0, '', 0, now}
      r.dirty = true
      return young and UNCLEAR or VOIDED, 0, 0
    end
    return young and UNCLEAR or NOT_FOUND, 0, 0
  end
  if values[1] == 0 then return values[2] == 0 and KNOWN or UNCLEAR, 0, 0 end
  if values[3] < m.since then return UNCLEAR, 0, 0 end
  local back, done = values[10] or 0, values[11] or {}
  local gave
  for j = 1, #done, 2 do
    if done[j] == id then gave = done[j + 1] end
  end
  if gave and kind == 1 then return KNOWN, gave, 0 end
  local left = values[1] - back
  if amount == 0 then amount = left end
  if left == 0 and (kind == 2 or element[7] == 0) then return KNOWN, gave or 0, 0 end
  if amount > left then return TOO_MUCH, 0, 0 end
  if #done >= 2 * MOST_IDS and kind == 1 then return TOO_MANY, 0, 0 end
  if e.epoch == values[2] and e.state == '' and e.balance + amount > MAX then return BROKEN, 0, 0 end
  values[10] = back + amount
  done[#done + 1], done[#done + 2] = id, amount
  values[11], r.dirty = done, true
  if at > 0 and values[7] ~= '' then lower(page, e.id, values, terms[at], back, back + amount) end
  return ACCEPTED, amount, give_back(e, values, amount)
end

-- Read the keys that were not read yet: one of another type must fail the call now.
call('SCARD', KEYS[9])
call('HLEN', KEYS[8])
for k = 10, #KEYS do call('HLEN', KEYS[k]) end
for i = 1, #elements do
  local element = elements[i]
  local e, r = entries[buckets[element[3]]], record_of(element[1], element[2])
  local verdict, gave, late = undo(element, e, r)
  local text = 0
  if r.values and verdict ~= MOVING and verdict ~= BROKEN then text = text_of(r.values) end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = verdict, text, gave, late
end
if #changes > 0 then call('SADD', KEYS[9], unpack(changes)) end
for _, r in pairs(records) do
  if r.dirty then call('HSET', r.key, r.field, text_of(r.values)) end
end
for _, c in pairs(counters) do
  if c.dirty then call('HSET', c.key, c.field, encode_sections(c.expires, c.list)) end
end
for name, units in pairs(lates) do
  call('HSET', KEYS[8], name, string.format('%.0f ', units) .. m.slice)
end
save(entries)
return {now, answer}
