-- counters.lua: how deduct.lua and unload.lua judge limits by the counters that limits.lua has read (counts.prepare),
-- and count. It is put between them.

-- The operation that is judged: for each of its limits what is used; when it began (first_hit); and its slots and the
-- oldest of them (sliding).
local used, began, slots, oldest = {}, {}, {}, {}

-- since is from when on all that counts for a limit is here.
local function since(d)
  if d.heard.changed == d.changed then return d.heard.since end
  return d.new and 0 or root.now + 1 -- what was before may have been in this very ms
end

-- missing returns the mark that a counter has to be loaded for, nil if it need not be.
local function missing(d, found)
  if found then
    if string.byte(found) ~= 117 then return nil end -- u
    return tonumber(string.match(found, '^u(%d+)$'))
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
  slots[j], used[j], oldest[j] = {}, 0, math.floor(root.now / d.to)
  for step, units, last in string.gmatch(text, '(%d+):(%d+)()') do
    slot, number, read_to = slot + tonumber(step), tonumber(units), last - 1
    -- It overlaps the last ms of the length, now included.
    if number > 0 and (slot + 1) * d.to > root.now - d.from + 1 then
      slots[j][slot] = number
      used[j] = math.min(used[j] + number, MAX_AMOUNT)
      oldest[j] = math.min(oldest[j], slot)
    end
  end
  return read_to == #text
end

-- open reads a counter, false for none, for the j-th limit: sets used, and began of a first_hit one. Returns false
-- if it is none.
local function open(j, d, counter)
  if d.kind == 's' then return read_slots(j, d, counter or '') end
  if d.kind ~= 'f' then
    used[j] = counter and quantity(counter) or 0
    return used[j] > 0 or not counter or counter == '0'
  end
  local number, start = string.match(counter or '0 0', '^(%d+) (%x+)$')
  number, start = quantity(number), start and #start <= 13 and tonumber(start, 16)
  if not number or not start then return false end
  if start == 0 or root.now >= start + d.from then
    number, start = 0, root.now
  end
  used[j], began[j] = number, math.min(start, root.now)
  return true
end

-- reset_of is when the window of the j-th limit is over, or, sliding, when its oldest slot leaves it, in ms; 0: never.
local function reset_of(j, d)
  if d.kind == 'c' then return d.to end
  if d.kind == 'f' then return began[j] + d.from end
  if d.kind == 's' then return (oldest[j] + 1) * d.to - 1 + d.from end
  return 0
end

-- hear notes, for counts.flush to write, which limits there are, those of the operation whose n counts begin at a place.
local function hear(first, n)
  for i = first, first + n - 1 do
    local d = of[i]
    local heard = d.heard
    if heard.changed ~= d.changed or heard.generation ~= d.generation then
      heard.since, heard.changed, heard.generation = since(d), d.changed, d.generation
      local fields = root.fields
      fields[#fields + 1], fields[#fields + 2] = '@' .. d.name, text_of(d.changed) .. ' ' ..
        text_of(heard.since) .. ' ' .. (d.generation and text_of(d.generation) or '')
    end
  end
end

-- outdated says whether an operation knows an older limit than the root, or is for another calendar window; or returns
-- nil and why the root is broken.
local function outdated(first, n)
  if root.broken then return nil, root.broken end
  local older = false
  for i = first, first + n - 1 do
    local d = of[i]
    if d.heard.broken then return nil, NOT_A_COUNTER end
    older = older or (d.heard.changed or 0) > d.changed or
      (d.kind == 'c' and (root.now < d.from or root.now >= d.to))
  end
  return older
end

-- tell sets what is told of an operation whose limits were read.
local function tell(first, n, over)
  local told = {root.now, over, used[1], reset_of(1, of[first])}
  for j = 2, n do
    told[2 * j + 1], told[2 * j + 2] = used[j], reset_of(j, of[first + j - 1])
  end
  counts.told = told
end

-- counts.tell_outdated sets what is told of an operation that is outdated.
function counts.tell_outdated() counts.told = {root.now, -1} end

-- counts.judge looks at the limits of the operation whose n counts begin at a place. Sets counts.told (for
-- an operation that is admitted counts.keep does), what the script answers of them: the instant, the place of
-- the first limit that would be exceeded or -1, then for UNLOADED a mark per limit (-1: nothing is missing), else
-- two numbers per limit: used, reset. Returns nil when they allow the operation, else a verdict; then why it is BROKEN;
-- then the reply of a failed call.
function counts.judge(first, n)
  if not root.settled then
    local older, why = outdated(first, n)
    if older == nil then return BROKEN, why end
    if older then
      counts.tell_outdated()
      return OUTDATED
    end
  end
  local marks, over
  for j = 1, n do
    local i = first + j - 1
    local d, number = of[i], number_of[i]
    local window = d.window
    local counter, why = window.found[number], window.broken[number]
    if why then return BROKEN, why end
    local mark = missing(d, counter)
    if mark then
      local ledgers, text = string.match(loaded[i], '^(%d+)|(.*)$')
      if tonumber(ledgers) ~= mark then
        marks = marks or {}
        marks[j] = mark
      else
        counter = text
      end
    end
    if not marks then
      if not open(j, d, counter) then return BROKEN, NOT_A_COUNTER end
      if not over and d.max >= 0 and used[j] > d.max - add[i] then over = j - 1 end
    end
  end
  if marks then
    local told = {root.now, -1}
    for j = 1, n do told[j + 2] = marks[j] or -1 end
    counts.told = told
    hear(first, n)
    return UNLOADED
  end
  if over then
    tell(first, n, over)
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

-- put takes a counter for counts.flush to write.
local function put(window, number, text)
  window.found[number] = text
  if not window.changed[number] then
    window.changed[number] = true
    window.dirty[#window.dirty + 1] = number
  end
end

-- counts.keep counts the operation that was judged last and admitted, for counts.flush to write.
function counts.keep(first, n)
  if not root.settled then hear(first, n) end
  for j = 1, n do
    local i = first + j - 1
    local d, text = of[i], nil
    used[j] = math.min(used[j] + add[i], MAX_AMOUNT)
    if d.kind == 's' then
      local slot = math.floor(root.now / d.to)
      slots[j][slot] = math.min((slots[j][slot] or 0) + add[i], MAX_AMOUNT)
      text = text_of_slots(slots[j])
    else
      text = text_of(used[j])
      if d.kind == 'f' then text = text .. string.format(' %x', began[j]) end
    end
    put(d.window, number_of[i], text)
  end
  tell(first, n, -1)
end

-- counts.unload makes the counters of an operation unknown, whose n counts begin at a place. Returns nil, or the reply
-- of the failed call.
function counts.unload(first, n)
  if root.broken then return nil end
  for i = first, first + n - 1 do
    local d, number = of[i], number_of[i]
    if d.heard.broken then return nil end
    local over = d.kind == 'c' and root.now >= d.to + PAGE_MARGIN_MS
    if d.heard.changed == d.changed and not over and not d.window.broken[number] then
      local mark = redis.pcall('HINCRBY', root.key, 'mark', 1)
      if type(mark) == 'table' then return failed(mark.err) end
      written = true
      hear(i, 1)
      put(d.window, number, 'u' .. text_of(mark))
    end
  end
  return counts.flush()
end
