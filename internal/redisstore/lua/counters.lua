-- counters.lua encodes and decodes counters: one hash field has all windows of one value of the routing
-- dimension. It follows shared.lua in deduct.lua and undo.lua.
--
-- A field is little-endian. It begins with the instant in ms from which it no longer counts (a double; 0
-- means never). Then follow, per limit, its tag (uint32: a hash of its name and of the version that changed
-- what it counts) and two doubles: the start of its window (calendar; 0 for lifetime) and its count. A
-- sliding or first_hit window has -(n + 1) and the sum instead, and n pairs of doubles follow: of a sliding
-- one a slot's first instant and its count, of a first_hit one the instant of a deduction that counts and
-- its count, oldest first. A first_hit window begins with its first pair.
--
-- Terms are one flat array: end_ms, limits version, number of limits, 1 if one has such pairs, then per
-- limit tag, kind, from_ms, to_ms, length_ms, slot_ms, most, measure. Kinds are 1 calendar, 2 lifetime,
-- 3 first_hit, 4 sliding. Measure 1 counts calls, 2 counts units. Limit l begins after index 8 * l - 4. An
-- array per limit would cost a call over many budgets as much as all its reads.
local CALENDAR, LIFETIME, FIRST_HIT, SLIDING = 1, 2, 3, 4

-- formats caches the struct formats of fields, by the number of limits.
local formats = {}

-- prepare adds the layout of the counters to terms. x.window_over says that a calendar window is not the
-- present one. x.quick says that the function quick can be used.
local function prepare(x, now)
  local n = x[3]
  local format = formats[n]
  if not format then
    format = '<d' .. rep('I4dd', n)
    formats[n] = format
  end
  x.flat, x.format, x.size, x.last, x.quick = x[4] == 0, format, 8 + 20 * n, 3 * n + 1, x[4] == 0
  for o = 4, 8 * n - 4, 8 do
    local kind = x[o + 2]
    if kind == CALENDAR then
      if now < x[o + 3] or now >= x[o + 4] then x.window_over = true end
    elseif kind ~= LIFETIME then x.quick = false
    end
  end
end

-- hit adds a deduction of `d` at an instant to the pairs of a first_hit window. Of more than MOST_HITS
-- pairs, those within a 32nd of the window's length become one, the latest of them, after a pair that counts
-- nothing and has the earliest, except the oldest: see the type hits of package limit.
local MOST_HITS = 64
local function hit(of, at, d, length)
  local last = #of
  if last > 0 and of[last - 1] >= at then
    of[last] = of[last] + d
    return of
  end
  of[last + 1], of[last + 2] = at, d
  if last + 2 <= 2 * MOST_HITS then return of end
  local cell, kept, j = math.max(math.floor(length / (MOST_HITS / 2)), 1), {of[1], of[2]}, 3
  if of[2] == 0 then kept[3], kept[4], j = of[3], of[4], 5 end
  while j <= #of do
    local first, latest, sum = of[j], of[j], 0
    while j <= #of and math.floor(of[j] / cell) == math.floor(first / cell) do
      latest, sum = of[j], sum + of[j + 1]
      j = j + 2
    end
    if first ~= latest then kept[#kept + 1], kept[#kept + 2] = first, 0 end
    kept[#kept + 1], kept[#kept + 2] = latest, sum
  end
  return kept
end

-- began_of returns when a first_hit window began: with its oldest deduction that counts. There must be one.
local function began_of(slots)
  return slots[2] == 0 and slots[3] or slots[1]
end

-- hits returns the pairs of a first_hit window that is open, and their sum.
local function hits(x, o, slots, now)
  if #slots == 0 or now >= began_of(slots) + x[o + 5] then return {}, 0 end
  local sum = 0
  for j = 2, #slots, 2 do sum = sum + slots[j] end
  return slots, sum
end

-- sections decodes a field to {tag, began, counted, slots} per limit. It returns nil if the field is
-- unreadable.
local function sections(v)
  local list, at, size = {}, 9, #v
  while at <= size do
    if size - at < 19 then return nil end
    local tag, began, counted = sunpack('<I4dd', v, at)
    at = at + 20
    if not (counted >= 0 and counted <= MAX and began >= -10001 and began <= MAX) then return nil end
    local s = {tag, began, counted}
    if began < 0 then
      local n, slots = -began - 1, {}
      if n % 1 ~= 0 or size - at + 1 < 16 * n then return nil end
      for j = 1, n do
        slots[2 * j - 1], slots[2 * j] = sunpack('<dd', v, at)
        at = at + 16
        if not (slots[2 * j] >= 0 and slots[2 * j] <= MAX) then return nil end
      end
      s[4] = slots
    end
    list[#list + 1] = s
  end
  return list
end

-- encode_sections returns the field of sections.
local function encode_sections(expires, list)
  local parts = {spack('<d', expires)}
  for j = 1, #list do
    local s = list[j]
    local slots = s[4]
    if slots then
      parts[#parts + 1] = spack('<I4dd', s[1], -(#slots / 2) - 1, s[3])
      for k = 1, #slots, 2 do parts[#parts + 1] = spack('<dd', slots[k], slots[k + 1]) end
    else
      parts[#parts + 1] = spack('<I4dd', s[1], s[2], s[3])
    end
  end
  return table.concat(parts)
end

-- window returns the start of a limit's current window, and the count in it. A count of a calendar window that
-- began a little before the present one is that of a node with other zone data, whose window overlaps: it stays.
-- The window before the present one began at least NEAR, or half of the present one, earlier.
local NEAR = 26 * 60 * 60 * 1000
local function window(x, o, began, counted)
  if x[o + 2] == CALENDAR then
    local from = x[o + 3]
    if from - began > math.min((x[o + 4] - from) / 2, NEAR) then return from, 0 end
  end
  return began, counted
end

-- sliding returns the slots that still count, and their sum.
local function sliding(x, o, slots, now)
  local from, kept, sum = now - x[o + 5] + 1, {}, 0
  from = from - from % x[o + 6]
  for j = 1, #slots, 2 do
    if slots[j] >= from then
      kept[#kept + 1], kept[#kept + 2] = slots[j], slots[j + 1]
      sum = sum + slots[j + 1]
    end
  end
  return kept, sum
end

-- decode decodes a field by terms to {expires, then tag, window, counted per limit}, as of now. The window of
-- a limit that is not in the field begins now. The second result is true if the field is unreadable.
local function decode(v, x, now)
  local n = x[3]
  if not v and x.flat then
    local s = {0}
    for l = 1, n do
      local o = 8 * l - 4
      local began = 0
      if x[o + 2] == CALENDAR then began = x[o + 3] end
      s[3 * l - 1], s[3 * l], s[3 * l + 1] = x[o + 1], began, 0
    end
    return s
  end
  if v and x.flat and #v == x.size then
    local s = {sunpack(x.format, v)}
    local same = true
    for l = 1, n do
      local o, c = 8 * l - 4, s[3 * l + 1]
      if s[3 * l - 1] ~= x[o + 1] then same = false break end
      if not (c >= 0 and c <= MAX and s[3 * l] >= 0) then return nil, true end
      s[3 * l], s[3 * l + 1] = window(x, o, s[3 * l], c)
    end
    if same then return s end
  end
  local by = {}
  if v then
    local list = sections(v)
    if not list then return nil, true end
    for j = 1, #list do by[list[j][1]] = list[j] end
  end
  local s = {0}
  for l = 1, n do
    local o = 8 * l - 4
    local old = by[x[o + 1]] or {x[o + 1], 0, 0}
    s[3 * l - 1] = x[o + 1]
    if x[o + 2] == SLIDING then
      s[3 * l], s[3 * l + 1] = sliding(x, o, old[4] or {}, now)
      s.now = now
    elseif x[o + 2] == FIRST_HIT then
      s[3 * l], s[3 * l + 1] = hits(x, o, old[4] or {}, now)
      s.now = now
    else
      s[3 * l], s[3 * l + 1] = window(x, o, old[2] >= 0 and old[2] or 0, old[3])
    end
  end
  return s
end

-- exceeds reports whether a deduction of `a` units exceeds a limit. own is nil, or {counts, most}, each 0 or
-- one number per limit.
local function exceeds(s, x, a, own)
  local counts, most = own and own[1] ~= 0 and own[1], own and own[2] ~= 0 and own[2]
  for l = 1, x[3] do
    local o = 8 * l - 4
    local d = counts and counts[l] or (x[o + 8] == 1 and 1 or a)
    if d > 0 and s[3 * l + 1] + d > (most and most[l] or x[o + 7]) then return true end
  end
  return false
end

-- count adds a deduction to all windows.
local function count(s, x, a, own)
  local counts = own and own[1] ~= 0 and own[1]
  for l = 1, x[3] do
    local o = 8 * l - 4
    local d = counts and counts[l] or (x[o + 8] == 1 and 1 or a)
    if d > 0 then
      s[3 * l + 1] = s[3 * l + 1] + d
      if x[o + 2] == SLIDING then
        local slots, slot = s[3 * l], s.now - s.now % x[o + 6]
        local last = #slots
        if last > 0 and slots[last - 1] >= slot then slots[last] = slots[last] + d
        else slots[last + 1], slots[last + 2] = slot, d
        end
      elseif x[o + 2] == FIRST_HIT then s[3 * l] = hit(s[3 * l], s.now, d, x[o + 5])
      end
    end
  end
end

-- encode returns the field of what decode returned.
local function encode(s, x)
  local n, expires = x[3], 0
  for l = 1, n do
    local o = 8 * l - 4
    local kind, ends = x[o + 2], 0
    if kind == LIFETIME then expires = 0 break
    elseif kind == CALENDAR then ends = s[3 * l] + x[o + 4] - x[o + 3]
    elseif kind == FIRST_HIT then ends = s.now + x[o + 5] -- it may begin later, with the last deduction
    else ends = s.now + x[o + 6] + x[o + 5]
    end
    if ends > expires then expires = ends end
  end
  s[1] = expires
  if x.flat then return spack(x.format, unpack(s, 1, 3 * x[3] + 1)) end
  local list = {}
  for l = 1, n do
    local kind = x[8 * l - 2]
    local slots = (kind == SLIDING or kind == FIRST_HIT) and s[3 * l] or nil
    list[l] = {s[3 * l - 1], slots and 0 or s[3 * l], s[3 * l + 1], slots}
  end
  return encode_sections(expires, list)
end

-- quick returns a field after a deduction of `a` units, if the field has the present windows and no limit is
-- exceeded. It returns nil otherwise: then decode, exceeds and count decide. Terms must have x.quick.
local function quick(v, x, a)
  if not v then
    v = x.blank or encode(decode(nil, x, 0), x)
    x.blank = v
  elseif #v ~= x.size then return nil
  end
  local s, o = {sunpack(x.format, v)}, 4
  for c = 4, x.last, 3 do
    local n = s[c]
    if s[c - 2] ~= x[o + 1] or s[c - 1] ~= x[o + 3] or not (n >= 0) then return nil end
    n = n + (x[o + 8] == 1 and 1 or a)
    if n > x[o + 7] then return nil end
    s[c] = n
    o = o + 8
  end
  return spack(x.format, unpack(s, 1, x.last))
end
