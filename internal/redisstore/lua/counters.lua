-- counters.lua: how deduct.lua and unload.lua judge limits by the counters that limits.lua has read (counts.prepare),
-- and count. It is put between them.

-- The operation that is judged: for each of its limits what is used; when it began (first_hit); and its slots and the
-- oldest of them (sliding).
local used, began, slots, oldest = {}, {}, {}, {}

-- missing returns the mark that a counter, false for none, has to be loaded for, nil if it need not be.
local function missing(d, found)
  if found then
    if type(found) == 'number' or byte(found) ~= 117 then return nil end -- u
    return tonumber(match(found, '^u(%d+)$'))
  end
  local begin = d.from
  if d.kind == 'f' or d.kind == 's' then begin = root.now - d.from - (d.kind == 's' and d.to or 0) end
  if begin < since(d) then return 0 end
  return nil
end

-- read_slots reads a sliding counter for the j-th limit: sets slots (number by slot), oldest (the one that counts, or
-- the present one) and used. Returns false if it is none.
local function read_slots(j, d, text)
  local slot, number, read_to = 0, 0, 0
  slots[j], used[j], oldest[j] = {}, 0, floor(root.now / d.to)
  for step, units, last in string.gmatch(text, '(%d+):(%d+)()') do
    slot, number, read_to = slot + tonumber(step), tonumber(units), last - 1
    -- It overlaps the last ms of the length, now included.
    if number > 0 and (slot + 1) * d.to > root.now - d.from + 1 then
      slots[j][slot] = number
      used[j] = min(used[j] + number, MAX_AMOUNT)
      oldest[j] = min(oldest[j], slot)
    end
  end
  return read_to == #text
end

-- open reads a counter, false for none, for the j-th limit: sets used, and began of a first_hit one. Returns false
-- if it is none.
local function open(j, d, counter)
  if d.kind == 's' then return read_slots(j, d, counter or '') end
  if d.kind ~= 'f' then
    local number = counter or 0
    if type(number) ~= 'number' then number = quantity(number) end
    used[j] = number
    return number ~= nil
  end
  local number, start = match(counter or '0 0', '^(%d+) (%x+)$')
  number, start = quantity(number), start and #start <= 13 and tonumber(start, 16)
  if not number or not start then return false end
  if start == 0 or root.now >= start + d.from then
    number, start = 0, root.now
  end
  used[j], began[j] = number, min(start, root.now)
  return true
end

-- tell tells how far the j-th limit is used; and when its window is over, or, sliding, when its oldest slot leaves it, in
-- ms: of the others the caller knows that.
local function tell(j, d)
  told_n = told_n + 1
  told[told_n] = used[j]
  if d.plain then return end
  told_n = told_n + 1
  told[told_n] = d.kind == 'f' and began[j] + d.from or (oldest[j] + 1) * d.to - 1 + d.from
end

-- hear notes, for counts.flush to write, which limits there are, those of the operation whose n counts begin at a place of
-- the list.
local function hear(at, n)
  local list = root.counted.list
  for k = at, at + 3 * n - 1, 3 do
    local d = root.limits[list[k]]
    local heard = d.heard
    if heard.changed ~= d.changed or heard.generation ~= d.generation then
      heard.since, heard.changed, heard.generation = since(d), d.changed, d.generation
      local m = root.fields_n
      root.fields = with(root.fields, m + 1, d.field)
      root.fields[m + 2] = text_of(d.changed) .. ' ' .. text_of(heard.since) .. ' ' ..
        (d.generation and text_of(d.generation) or '')
      root.fields_n = m + 2
    end
  end
end

-- outdated says whether an operation knows an older limit than the root, or is for another calendar window; or returns
-- nil and why the root is broken.
local function outdated(at, n)
  if root.broken then return nil, root.broken end
  local older, list = false, root.counted.list
  for k = at, at + 3 * n - 1, 3 do
    local d = root.limits[list[k]]
    if d.heard.broken then return nil, NOT_A_COUNTER end
    older = older or (d.heard.changed or 0) > d.changed or
      (d.kind == 'c' and (root.now < d.from or root.now >= d.to))
  end
  return older
end

-- examine looks at any counter, for the j-th limit, which the count at a place of the list is of: sets what is used and
-- what open sets. Returns why it is broken; or nil and the mark that it has to be loaded for, if it has to.
-- One that follows such a one (`unread`) is not read.
local function examine(j, d, number, at, unread)
  local window = d.window
  local why = window.broken[number]
  if why then return why end
  local counter = window.found[number] or window.odd[number]
  local mark = missing(d, counter)
  if mark then
    local k = (at + 2) / 3
    if root.counted.marks[k] ~= mark then return nil, mark end
    counter = root.counted.texts[k]
  end
  if not unread and not open(j, d, counter) then return NOT_A_COUNTER end
  return nil
end

-- counts.judge looks at the limits of the operation whose n counts begin at a place of the list. Tells (for
-- an operation that is admitted counts.keep does) for UNLOADED a mark per limit (-1: nothing is missing), for OVER_LIMIT
-- the place of the first limit that would be exceeded, from 0, then of each limit what tell says. Returns nil when they
-- allow the operation, else a verdict; then why it is BROKEN.
function counts.judge(at, n)
  if not root.settled then
    local older, why = outdated(at, n)
    if older == nil then return BROKEN, why end
    if older then return OUTDATED end
  end
  local list, limits = root.counted.list, root.limits
  local marks, over
  for j = 1, n do
    local k = at + 3 * j - 3
    local d, number = limits[list[k]], list[k + 1]
    local count = d.plain and d.window.found[number] or d.zero
    if count then
      used[j] = count
    else
      local why, mark = examine(j, d, number, k, marks)
      if why then return BROKEN, why end
      if mark then
        marks = marks or {}
        marks[j] = mark
      end
    end
    if not (over or marks) and d.max >= 0 and used[j] > d.max - list[k + 2] then over = j - 1 end
  end
  if marks then
    for j = 1, n do told[told_n + j] = marks[j] or -1 end
    told_n = told_n + n
    hear(at, n)
    return UNLOADED
  end
  if over then
    told_n = told_n + 1
    told[told_n] = over
    for j = 1, n do tell(j, limits[list[at + 3 * j - 3]]) end
    return OVER_LIMIT
  end
  return nil
end

-- text_of_slots writes a sliding counter.
local function text_of_slots(numbers)
  local order, text, before = {}, {}, 0
  for slot in pairs(numbers) do order[#order + 1] = slot end
  table.sort(order)
  for i, slot in ipairs(order) do
    text[i] = text_of(slot - before) .. ':' .. text_of(numbers[slot])
    before = slot
  end
  return table.concat(text, ' ')
end

-- counts.keep counts the operation that was judged last and admitted, for counts.flush to write, and tells of each limit
-- what tell says.
function counts.keep(at, n)
  if not root.settled then hear(at, n) end
  local list, limits, now = root.counted.list, root.limits, root.now
  for j = 1, n do
    local k = at + 3 * j - 3
    local d, number, add = limits[list[k]], list[k + 1], list[k + 2]
    local window, count = d.window, used[j] + add
    if count > MAX_AMOUNT then count = MAX_AMOUNT end
    window.touched[number] = true
    if d.plain then
      told_n = told_n + 1
      told[told_n], window.found[number] = count, count
    else
      used[j] = count
      if d.kind == 's' then
        local slot = floor(now / d.to)
        slots[j][slot] = min((slots[j][slot] or 0) + add, MAX_AMOUNT)
        window.found[number] = text_of_slots(slots[j])
      else
        window.found[number] = text_of(count) .. format(' %x', began[j])
      end
      tell(j, d)
    end
  end
end

-- counts.told returns what was told since counts.prepare: signed numbers of 8 bytes.
function counts.told()
  local text = ''
  for first = 1, told_n, MOST_AT_ONCE do
    local last = min(told_n, first + MOST_AT_ONCE - 1)
    text = text .. struct.pack(string.rep('>i8', last - first + 1), unpack(told, first, last))
  end
  return text
end

-- counts.unload makes the counters of an operation unknown, whose n counts are all that were read. Returns nil, or the
-- reply of the failed call.
function counts.unload(n)
  if root.broken then return nil end
  local list = root.counted.list
  for k = 1, 3 * n, 3 do
    local d, number = root.limits[list[k]], list[k + 1]
    local window = d.window
    if d.heard.broken then return nil end
    local over = d.kind == 'c' and root.now >= d.to + PAGE_MARGIN_MS
    if d.heard.changed == d.changed and not over and not window.broken[number] then
      local mark = command('HINCRBY', root.key, 'mark', 1)
      if type(mark) == 'table' then return failed(mark.err) end
      written = true
      hear(k, 1)
      local text = 'u' .. text_of(mark)
      window.touched[number] = true
      if d.plain then
        window.found[number], window.odd = false, with(window.odd, number, text)
      else
        window.found[number] = text
      end
    end
  end
  return counts.flush()
end
