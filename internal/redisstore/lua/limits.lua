-- limits.lua: how deduct.lua and unload.lua read and write the counters of limits (store mode). It is put in
-- front of them, after shared.lua and records.lua; counters.lua follows. Both are the body of a function that returns
-- counts (scripts.go): what its functions use of the outside is found once, and not for each of them in every call.
--
-- The counters of a bucket belong to the epoch that they began with: bucket.Counting.From. Its root key is
--   <lane>:<bucket>:<from>:l:1                    a hash: `mark` (the last one that an unloading gave), and for
--                                                 each limit `@<name>` = `<changed> <since> <generation>`
-- and all other keys are made of it, with its hash tag:
--   <root>:<limit>:<changed>:<window><path>       a hash, called a page: value -> counter
-- The window is the begin of a calendar window in ms, 0 for a lifetime, g<generation> for the others. A page
-- takes new values until it has PAGE_VALUES (of a lifetime LIFETIME_VALUES); a value that is not in a full page is looked for in one of its 16
-- children, whose path has one more digit of the value's SHA-1. So pages grow as there are more
-- values, no key grows without bound (a page ends with so many and what one call adds), and nothing is ever
-- moved. A value is never removed from its page: pages expire.
--
-- A counter is the decimal number counted (calendar, lifetime); `<number> <began in ms>` (first_hit; the second
-- hexadecimal, so that both mostly fit 16 bytes of memory);
-- `<slot>:<number> <slots later>:<number> …`, slot = floor(ms / length of a slot), from the oldest on
-- (sliding); or `u<mark>`: it has to be loaded.
--
-- Sliding and first_hit windows are kept in generations as long as a deduction can count: length and slot. What is
-- written goes to the present one, with what it takes over from the one before; older ones say nothing
-- any more. A clock that went back counts as being in the generation that was written last.
--
-- `since` is from when on all that is counted for a limit is in these pages: a value that is not there and
-- whose window began before that has to be loaded from the ledger.
-- Instants are the server's clock less `ahead`, which is SQL's.
--
-- Operations that count against one root are taken together: counts.prepare reads the root once and each page once
-- for all of them, counts.judge and counts.keep work on what was read, and counts.flush writes each page
-- once. The script is atomic, so nothing changes in between but by counts.keep, which is seen at once.

-- A counter of a calendar window or a lifetime that was read is kept as a Lua number until counts.flush writes it. What of
-- it is no number (`u<mark>`, or nothing that it may be) is kept as it is, in .odd of its window.

-- Here and below, fields that are nil at first are named so that the table has room for them.
local counts = {parse_limits = nil, parse = nil, prepare = nil, judge = nil, keep = nil, flush = nil, told = nil,
  unload = nil}

-- How many values a page takes: few pages, so that the values of a call share them, and none that keeps the server
-- for longer than some ms when it expires. Those of a lifetime never expire.
local PAGE_VALUES, LIFETIME_VALUES = 16384, 131072
-- How much longer than its window a page is kept, in ms: this, and up to PAGE_SPREAD_MS, so that
-- pages do not expire all at once.
local PAGE_MARGIN_MS, PAGE_SPREAD_MS = 60000, 65536
-- unpack puts its values on Lua's stack, which has room for 8,000.
local MOST_AT_ONCE = 1000
-- Numbers below it are read and written once.
local SMALL = 100

local NOT_A_COUNTER = 'a counter of a limit is not what it must be'
local NOT_A_HASH = 'the counters of the limits are not a hash'

local byte = string.byte

-- The root that counts.prepare has read last: .key, .ahead, .now, .broken (why), .limits (counts.parse_limits), .counted
-- (what counts.parse has set), .digits of the SHA-1 of values, .fields (what is to be written of it) and how
-- many, .settled (it has heard of the operations' limits, and all calendar windows are present ones).
local root = {key = nil, ahead = nil, now = nil, broken = nil, limits = nil, counted = nil, digits = nil, fields = nil,
  fields_n = nil, settled = nil}
-- What is told of the operations (counts.told), and how many numbers.
local told, told_n = {}, 0

-- change runs a write. Returns nil, or the reply of the failed call.
local function change(...)
  local done = command(...)
  if type(done) == 'table' and done.err then return failed(done.err) end
  written = true
  return nil
end

-- nothing stands for tables that are mostly empty; with sets a field of a table, or of a new one instead of it.
local nothing = {}
local function with(t, key, value)
  if t == nothing then t = {} end
  t[key] = value
  return t
end

-- counts.parse_limits reads from a text, at a place, what some operations have in common: how many limits follow (4; 0:
-- they are those of `before`), and of each its field in the root (after 1 byte of length), the version when it changed
-- (7), maximum or -1 (8, signed), kind (c calendar, l lifetime, f first_hit, s sliding), begin and end of the window,
-- or its length and slot, in ms (7 each), 1 where nothing was counted before, else 0 (1), and the part of its pages'
-- keys that follows the root: to the end of it for c and l, without the generation for the others (after 1 byte of
-- length). Returns them and the place after. Raises an error if it is none. The window of a limit is the table of the
-- first limit that has the same.
function counts.parse_limits(text, at, before)
  local n
  n, at = unpack_text('>I4', text, at)
  if n == 0 then return assert(before), at end
  local limits, fields, all, places, k = {n = n, fields = nil, heard = nil, fields_n = nil}, {}, {}, {}, 0
  for i = 1, n do
    local field, changed, top, kind, from, to, new, path
    field, changed, top, kind, from, to, new, path, at = unpack_text('>I1c0I7i8c1I7I7BI1c0', text, at)
    local place = places[field]
    if not place then
      k = k + 1
      place, places[field], fields[k] = k, k, field
      all[k] = {changed = nil, since = nil, generation = nil, broken = nil}
    end
    limits[i] = {field = field, heard = all[place], changed = changed, max = top, kind = kind, from = from, to = to,
      new = new == 1, path = path, plain = kind == 'c' or kind == 'l', generation = nil, window = nil, zero = nil,
      -- as a window
      key = nil, fresh = nil, before = nil, expires = nil, most = kind == 'l' and LIFETIME_VALUES or PAGE_VALUES,
      found = nil, odd = nil, page = nil, broken = nil, touched = nil}
  end
  limits.fields, limits.heard, limits.fields_n = fields, all, k
  return limits, at
end

-- counts.parse reads what operations count for, n counts together: of each its place among limits (4), the number of its
-- value (4) and what to add (7); then how many values there are (4), each once: the field of its page (after 1
-- byte of length); then how many counts the ledger was asked for (4), and of each its place among the counts
-- (4, from 1), the mark (7) and the counter (after 4 bytes of length). Sets of a table, which has .limits and .ahead:
-- .list (three numbers per count), .values and .size, how many, and .marks and .texts by the place of the count. Returns
-- the place after. Raises an error if it is none.
function counts.parse(counted, text, at, n)
  local list, values, size, asked
  list, at = rows('>I4I4I7', 3, n, text, at)
  size, at = unpack_text('>I4', text, at)
  values, at = rows('>I1c0', 1, size, text, at)
  local known = counted.limits.n
  for k = 1, 3 * n, 3 do
    local limit, number = list[k], list[k + 1]
    if limit == 0 or limit > known or number == 0 or number > size then assert(false) end
  end
  local marks, texts = nothing, nothing
  asked, at = unpack_text('>I4', text, at)
  for _ = 1, asked do
    local place, mark, counter
    place, mark, counter, at = unpack_text('>I4I7I4c0', text, at)
    marks, texts = with(marks, place, mark), with(texts, place, counter)
  end
  counted.list, counted.values, counted.size, counted.marks, counted.texts = list, values, size, marks, texts
  return at
end

-- number_of is quantity, faster for numbers of up to three digits.
local function number_of(text)
  local a, b, c, d = byte(text, 1, 4)
  if not d and a and a > 47 and a < 58 then
    if not b then return a - 48 end
    if a > 48 and b > 47 and b < 58 then
      if not c then return 10 * a + b - 528 end
      if c > 47 and c < 58 then return 100 * a + 10 * b + c - 5328 end
    end
  end
  return quantity(text)
end

-- The numbers of short texts that were read: counters are mostly small, and many are alike.
local numbers_of = {}

-- take keeps what a page has of a value.
local function take(window, number, counter)
  local known = counter
  if window.plain then
    known = number_of(counter) or false
    if not known then
      window.odd = with(window.odd, number, counter)
    elseif known < SMALL then
      numbers_of[counter] = known
    end
  end
  window.found[number] = known
end

-- below looks n values, given by their numbers, that are not in a page up in its children: see fetch.
local fetch
local function below(window, page, absent, n, depth)
  local size = command('HLEN', page.key)
  if type(size) == 'table' then return failed(size.err) end
  page.fresh = size == 0
  if size < window.most then return nil end
  local children, order, values = {}, {}, root.counted.values
  for i = 1, n do
    local number = absent[i]
    local value, digits = values[number], root.digits[number]
    if not digits then
      digits = sha1hex(value)
      root.digits = with(root.digits, number, digits)
    end
    local digit = sub(digits, depth + 1, depth + 1)
    local child = children[digit]
    if not child then
      child = {page = {key = page.key .. (depth == 0 and ':' or '') .. digit}, numbers = {}, texts = {}, n = 0}
      children[digit] = child
      order[#order + 1] = child
    end
    child.n = child.n + 1
    child.numbers[child.n], child.texts[child.n] = number, value
    if depth == 40 then
      window.broken = with(window.broken, number, 'the counters of the limits are too deep')
    end
  end
  for _, child in ipairs(depth < 40 and order or {}) do
    local fault = fetch(window, child.page, child.numbers, child.texts, child.n, depth + 1)
    if fault then return fault end
  end
  return nil
end

-- fetch looks n values, given by their numbers, up in a page and its children. Sets for each of them .found
-- (the counter or false) and .page of the window (where it is or has to go, nil for the first one); or
-- .broken, why. Returns nil, or the reply of the failed call.
function fetch(window, page, numbers, texts, n, depth)
  local absent, k = {}, 0
  if depth > 0 then
    for i = 1, n do window.page = with(window.page, numbers[i], page) end
  end
  for first = 1, n, MOST_AT_ONCE do
    local last = min(n, first + MOST_AT_ONCE - 1)
    local got = command('HMGET', page.key, unpack(texts, first, last))
    if got.err and not is_wrong_type(got.err) then return failed(got.err) end
    for i = first, last do
      local counter = got[i - first + 1]
      if got.err then
        window.broken = with(window.broken, numbers[i], NOT_A_HASH)
      elseif counter then
        take(window, numbers[i], counter)
      else
        k = k + 1
        absent[k] = numbers[i]
      end
    end
  end
  if k == 0 then return nil end
  return below(window, page, absent, k, depth)
end

-- pages says where a limit's counters are: the key of the pages of the present window, .expires (on the server's clock,
-- in ms; nil: never) and, for windows in generations, .generation and the key of the one before.
local function pages(d)
  local at = root.key .. d.path
  if d.plain then
    if d.kind == 'c' then d.expires = d.to + root.ahead + PAGE_MARGIN_MS end
    return at
  end
  local span = d.from + (d.kind == 's' and d.to or 0)
  local known = d.heard.changed == d.changed and d.heard.generation or 0
  d.generation = max(floor(root.now / span), known)
  d.expires = (d.generation + 2) * span + root.ahead + PAGE_MARGIN_MS
  return at .. text_of(d.generation), at .. text_of(d.generation - 1)
end

-- hear_root reads the root: sets .broken of it, and .heard of each limit, what was written of its name:
-- .changed, .since and .generation (nil: nothing), or .broken. Returns nil, or the reply of the failed call.
local function hear_root(limits)
  local n, all = limits.fields_n, limits.heard
  local got = n > 0 and command('HMGET', root.key, unpack(limits.fields, 1, n)) or {}
  if got.err then
    if not is_wrong_type(got.err) then return failed(got.err) end
    root.broken, got = NOT_A_HASH, {}
  end
  local before, changed, since, generation
  for i = 1, n do
    local text, heard = got[i], all[i]
    if not text then
      heard.changed, heard.since, heard.generation, heard.broken = nil, nil, nil, nil
    else
      if text ~= before then -- limits that came together are alike
        changed, since, generation = match(text, '^(%d+) (%d+) (%d*)$')
        changed, since, generation = tonumber(changed), tonumber(since), tonumber(generation)
        before = text
      end
      heard.changed, heard.since, heard.generation, heard.broken = changed, since, generation, not changed
    end
  end
  return nil
end

-- look_up reads the counters of a window: those that are not there from the generation before. Returns nil, or the
-- reply of the failed call.
local function look_up(window)
  local values, size, found = root.counted.values, root.counted.size, {}
  for first = 1, size, MOST_AT_ONCE do
    local last = min(size, first + MOST_AT_ONCE - 1)
    local got = command('HMGET', window.key, unpack(values, first, last))
    if got.err then
      if not is_wrong_type(got.err) then return failed(got.err) end
      for number = first, last do window.broken = with(window.broken, number, NOT_A_HASH) end
    elseif first == 1 then
      found = got
    else
      for number = first, last do found[number] = got[number - first + 1] end
    end
  end
  window.found = found
  if window.broken ~= nothing then return nil end
  local absent, n, plain = nothing, 0, window.plain
  for number = 1, size do
    local counter = found[number]
    if not counter then
      n = n + 1
      absent = with(absent, n, number)
    elseif plain then
      local known = numbers_of[counter]
      if known then found[number] = known else take(window, number, counter) end
    end
  end
  local fault = n > 0 and below(window, window, absent, n, 0)
  if fault or not window.before then return fault or nil end
  local numbers, texts, k = {}, {}, 0
  for i = 1, n do
    local number = absent[i]
    if not found[number] and not window.broken[number] then
      k = k + 1
      numbers[k], texts[k] = number, values[number]
    end
  end
  if k == 0 then return nil end
  local older = {found = found, most = window.most, page = nothing, broken = window.broken, plain = false,
    odd = nothing}
  fault = fetch(older, {key = window.before}, numbers, texts, k, 0)
  window.broken = older.broken
  return fault
end

-- since is from when on all that counts for a limit is here.
local function since(d)
  if d.heard.changed == d.changed then return d.heard.since end
  return d.new and 0 or root.now + 1 -- what was before may have been in this very ms
end

-- counts.prepare reads what operations that count (counts.parse) need of a root at a time of the
-- server: to be called before counts.judge, again after counts.flush. Returns nil, or the reply of the failed call.
function counts.prepare(key, counted, time)
  local limits, ahead = counted.limits, counted.ahead
  local now = time - ahead
  root.key, root.ahead, root.now, root.limits, root.counted = key, ahead, now, limits, counted
  root.digits, root.broken, root.settled, root.fields, root.fields_n = nothing, nil, nil, nothing, 0
  told_n = 0
  local fault = hear_root(limits)
  if fault or root.broken then return fault end
  local settled = true
  for i = 1, limits.n do
    local d, window = limits[i], nil
    local heard = d.heard
    d.key, d.before = pages(d)
    for k = 1, i - 1 do
      if limits[k].key == d.key then
        window = limits[k].window
        break
      end
    end
    if not window then
      window, d.fresh, d.found, d.odd, d.page, d.broken, d.touched = d, nil, nil, nothing, nothing, nothing, {}
    end
    d.window, d.zero = window, nil
    settled = settled and heard.changed == d.changed and heard.generation == d.generation and
      (d.kind ~= 'c' or (now >= d.from and now < d.to))
  end
  root.settled = settled
  for i = 1, limits.n do
    local d = limits[i]
    fault = d.window == d and look_up(d)
    if fault then return fault end
  end
  if not settled then return nil end
  -- What a value has counted that is not there, in windows without anything strange, nil: see counts.judge.
  for i = 1, limits.n do
    local d = limits[i]
    local window = d.window
    if d.plain and d.from >= since(d) and window.odd == nothing and window.broken == nothing then d.zero = 0 end
  end
  return nil
end

-- write writes n fields and values of a page of a window. Returns nil, or the reply of the failed call.
local function write(window, page, list, n)
  for first = 1, n, MOST_AT_ONCE do
    local fault = change('HSET', page.key, unpack(list, first, min(n, first + MOST_AT_ONCE - 1)))
    if fault then return fault end
  end
  if page.fresh and window.expires then
    local spread = tonumber(sub(sha1hex(page.key), 1, 4), 16) % PAGE_SPREAD_MS
    return change('PEXPIREAT', page.key, text_of(window.expires + spread))
  end
  return nil
end

-- counts.flush writes what counts.judge, counts.keep and counts.unload have noted. Returns nil, or the reply of the
-- failed call.
function counts.flush()
  if root.fields_n > 0 then
    local fault = change('HSET', root.key, unpack(root.fields, 1, root.fields_n))
    if fault then return fault end
  end
  local values, texts, limits = root.counted.values, {}, root.limits
  for i = 1, root.broken and 0 or limits.n do
    local window = limits[i]
    local touched, found, plain, page_of = window.touched, window.found, window.plain, window.page
    local list, n, others = {}, 0, nothing
    for number = 1, window.window == window and root.counted.size or 0 do
      if touched[number] then
        local text, page = found[number], page_of[number]
        if plain then
          local count = text
          text = texts[count] or (count and text_of(count)) or window.odd[number]
          if count and count < SMALL then texts[count] = text end
        end
        if page then
          if not page.list then
            page.list, page.n = {}, 0
            others = with(others, #others + 1, page)
          end
          page.n = page.n + 2
          page.list[page.n - 1], page.list[page.n] = values[number], text
        else
          list[n + 1], n = values[number], n + 2
          list[n] = text
        end
      end
    end
    local fault = n > 0 and write(window, window, list, n)
    if fault then return fault end
    for k = 1, #others do
      fault = write(window, others[k], others[k].list, others[k].n)
      if fault then return fault end
    end
  end
  return nil
end
