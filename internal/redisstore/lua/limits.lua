-- limits.lua: how deduct.lua and unload.lua read and write the counters of limits (store mode). It is put in
-- front of them, after shared.lua and records.lua; counters.lua follows.
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

-- Here and below, fields that are nil at first are named so that the table has room for them.
local counts = {told = nil, parse_limits = nil, length = nil, parse = nil, prepare = nil, tell_outdated = nil, judge = nil,
  keep = nil, flush = nil, unload = nil}

-- How many values a page takes: few pages, so that the values of a call share them, and none that keeps the server
-- for longer than some ms when it expires. Those of a lifetime never expire.
local PAGE_VALUES, LIFETIME_VALUES = 16384, 131072
-- How much longer than its window a page is kept, in ms: this, and up to PAGE_SPREAD_MS, so that
-- pages do not expire all at once.
local PAGE_MARGIN_MS, PAGE_SPREAD_MS = 60000, 65536
-- unpack puts its values on Lua's stack, which has room for 8,000.
local MOST_AT_ONCE = 1000

local NOT_A_COUNTER = 'a counter of a limit is not what it must be'
local NOT_A_HASH = 'the counters of the limits are not a hash'

-- What operations count for, a place for each: the definition of the limit (counts.parse_limits), the value, its number
-- in root.values, what to add, and `<mark>|<counter>` as loaded from the ledger or ''.
local of, values, number_of, add, loaded = {}, {}, {}, {}, {}
-- The root that counts.prepare has read: .key, .ahead, .now, .broken (why), .windows, .values and .digits of
-- their SHA-1 (lists), .fields (what is to be written of it), .settled (it has heard of the operations' limits, and all
-- calendar windows are present ones).
local root

-- change runs a write. Returns nil, or the reply of the failed call.
local function change(...)
  local done = redis.pcall(...)
  if type(done) == 'table' and done.err then return failed(done.err) end
  written = true
  return nil
end

-- counts.parse_limits reads from a text, at a place, what some operations have in common: by how much the clock is
-- ahead of SQL's in ms (8 bytes, signed), how many limits follow (4), and
-- of each its name (after 1 byte of length), the version when it changed (7), maximum or -1 (8, signed),
-- kind (c calendar, l lifetime, f first_hit, s sliding), begin and end of the window, or its length
-- and slot, in ms (7 each), 1 where nothing was counted before, else 0 (1). Returns them and the place after. Raises an
-- error if it is none.
function counts.parse_limits(text, at)
  local limits, n = {}, 0
  limits.ahead, n, at = struct.unpack('>i8I4', text, at)
  for i = 1, n do
    local name, changed, max, kind, from, to, new
    name, changed, max, kind, from, to, new, at = struct.unpack('>I1c0I7i8c1I7I7B', text, at)
    limits[i] = {name = name, changed = changed, max = max, kind = kind, from = from, to = to, new = new == 1,
      heard = nil, window = nil, expires = nil, generation = nil}
  end
  return limits, at
end

-- counts.length is how many counts have been read.
function counts.length() return #of end

-- counts.parse reads what one operation counts for: how many limits (1 byte), and of each its place among limits
-- (4), what to add (7), the value as field of its page (after 1 byte of length; '' for that of the limit
-- before) and what the ledger has (`<mark>|<counter>`, or ''; after 4 bytes of length). Returns how many
-- and the place after. Raises an error if it is none.
function counts.parse(text, at, limits)
  local n, first = 0, #of
  n, at = struct.unpack('B', text, at)
  for i = first + 1, first + n do
    local limit, value
    limit, add[i], value, loaded[i], at = struct.unpack('>I4I7I1c0I4c0', text, at)
    if value == '' and i > first + 1 then value = values[i - 1] end
    of[i], values[i] = assert(limits[limit]), value
  end
  return n, at
end

-- nothing stands for tables that are mostly empty; with sets a field of a table, or of a new one instead of it.
local nothing = {}
local function with(t, key, value)
  if t == nothing then t = {} end
  t[key] = value
  return t
end

-- fetch looks values, given by their numbers in root.values, up in a page and its children. Sets for each of them .found
-- (the counter or false) and .page of the window (where it is or has to go, nil for the first one); or
-- .broken, why. Returns nil, or the reply of the failed call.
local function fetch(window, page, numbers, texts, depth)
  local absent, found = nil, window.found
  if depth > 0 then
    for _, number in ipairs(numbers) do window.page = with(window.page, number, page) end
  end
  for first = 1, #numbers, MOST_AT_ONCE do
    local last = math.min(#numbers, first + MOST_AT_ONCE - 1)
    local got = redis.pcall('HMGET', page.key, unpack(texts, first, last))
    if got.err and not is_wrong_type(got.err) then return failed(got.err) end
    for i = first, last do
      local counter = got[i - first + 1]
      if got.err then
        window.broken = with(window.broken, numbers[i], NOT_A_HASH)
      elseif counter then
        found[numbers[i]] = counter
      else
        absent = absent or {}
        absent[#absent + 1] = numbers[i]
      end
    end
  end
  if not absent then return nil end
  local size = redis.pcall('HLEN', page.key)
  if type(size) == 'table' then return failed(size.err) end
  page.fresh = size == 0
  if size < window.values then return nil end
  local children, order = {}, {}
  for _, number in ipairs(absent) do
    local value = root.values[number]
    local digits = root.digits[number]
    if not digits then
      digits = redis.sha1hex(value)
      root.digits[number] = digits
    end
    local digit = string.sub(digits, depth + 1, depth + 1)
    local child = children[digit]
    if not child then
      child = {page = {key = page.key .. (depth == 0 and ':' or '') .. digit}, numbers = {}, texts = {}}
      children[digit] = child
      order[#order + 1] = child
    end
    table.insert(child.numbers, number)
    table.insert(child.texts, value)
    if depth == 40 then
      window.broken = with(window.broken, number, 'the counters of the limits are too deep')
    end
  end
  for _, child in ipairs(depth < 40 and order or {}) do
    local fault = fetch(window, child.page, child.numbers, child.texts, depth + 1)
    if fault then return fault end
  end
  return nil
end

-- pages says where a limit's counters are: the key of the pages of the present window, .expires (on the server's clock,
-- in ms; nil: never) and, for windows in generations, .generation and the key of the one before.
local function pages(d)
  local prefix = root.key .. ':' .. d.name .. ':' .. text_of(d.changed) .. ':'
  if d.kind == 'c' or d.kind == 'l' then
    if d.kind == 'c' then d.expires = d.to + root.ahead + PAGE_MARGIN_MS end
    return prefix .. text_of(d.from)
  end
  local span = d.from + (d.kind == 's' and d.to or 0)
  local known = d.heard.changed == d.changed and d.heard.generation or 0
  d.generation = math.max(math.floor(root.now / span), known)
  d.expires = (d.generation + 2) * span + root.ahead + PAGE_MARGIN_MS
  return prefix .. 'g' .. text_of(d.generation), prefix .. 'g' .. text_of(d.generation - 1)
end

-- hear_root reads the root: sets .broken of it, and .heard of each limit, what was written of its name:
-- .changed, .since and .generation (nil: nothing), or .broken. Returns nil, or the reply of the failed call.
local function hear_root(limits)
  local names, fields = {}, {}
  for _, d in ipairs(limits) do
    if not names[d.name] then
      fields[#fields + 1] = '@' .. d.name
      names[d.name] = {place = #fields, changed = nil, since = nil, generation = nil, broken = nil}
    end
    d.heard = names[d.name]
  end
  if #fields == 0 then return nil end
  local got = redis.pcall('HMGET', root.key, unpack(fields))
  if got.err then
    if not is_wrong_type(got.err) then return failed(got.err) end
    root.broken, got = NOT_A_HASH, {}
  end
  for _, heard in pairs(names) do
    local text = got[heard.place]
    if text then
      local changed, since, generation = string.match(text, '^(%d+) (%d+) (%d*)$')
      heard.changed, heard.since, heard.generation = tonumber(changed), tonumber(since), tonumber(generation)
      heard.broken = not changed
    end
  end
  return nil
end

-- number_values numbers the values of the counts from one place to another, each once, and sets what each window
-- has to look up.
local function number_values(first, last)
  local numbers, n = {}, 0
  for i = first, last do
    local value, number = values[i], nil
    if i > first and value == values[i - 1] then
      number = number_of[i - 1]
    else
      number = numbers[value]
      if not number then
        n = n + 1
        number, numbers[value], root.values[n] = n, n, value
      end
    end
    number_of[i] = number
    local window = of[i].window
    if window.found[number] == nil then
      window.found[number] = false
      local k = #window.numbers + 1
      window.numbers[k], window.texts[k] = number, value
    end
  end
end

-- look_up reads the counters of a window: those that are not there from the generation before. Returns nil, or the
-- reply of the failed call.
local function look_up(window)
  local fault = #window.numbers > 0 and fetch(window, window.first, window.numbers, window.texts, 0)
  if fault or not window.before then return fault or nil end
  local numbers, texts = {}, {}
  for i, number in ipairs(window.numbers) do
    if not window.found[number] and not window.broken[number] then
      numbers[#numbers + 1], texts[#texts + 1] = number, window.texts[i]
    end
  end
  if #numbers == 0 then return nil end
  local older = {found = window.found, values = window.values, page = nothing, broken = window.broken}
  fault = fetch(older, {key = window.before}, numbers, texts, 0)
  window.broken = older.broken
  return fault
end

-- counts.prepare reads what the operations' counts from one place to another need of a root at a time of the
-- server: to be called before counts.judge, again after counts.flush. Returns nil, or the reply of the failed call.
function counts.prepare(key, limits, first, last, time)
  root = {key = key, ahead = limits.ahead, now = time - limits.ahead, windows = {}, values = {}, digits = {},
    broken = nil, settled = nil, fields = {}}
  local fault = hear_root(limits)
  if fault or root.broken then return fault end
  local known, order = {}, root.windows
  root.settled = true
  for _, d in ipairs(limits) do
    local at, before = pages(d)
    if not known[at] then
      known[at] = {first = {key = at, fresh = nil, list = nil}, before = before, expires = d.expires,
        values = d.kind == 'l' and LIFETIME_VALUES or PAGE_VALUES, numbers = {}, texts = {}, found = {},
        page = nothing, broken = nothing, dirty = {}, changed = {}}
      order[#order + 1] = known[at]
    end
    d.window = known[at]
    root.settled = root.settled and d.heard.changed == d.changed and d.heard.generation == d.generation and
      (d.kind ~= 'c' or (root.now >= d.from and root.now < d.to))
  end
  number_values(first, last)
  for _, window in ipairs(order) do
    fault = look_up(window)
    if fault then return fault end
  end
  return nil
end

-- counts.flush writes what counts.judge, counts.keep and counts.unload have noted. Returns nil, or the reply of the
-- failed call.
function counts.flush()
  local fault = #root.fields > 0 and change('HSET', root.key, unpack(root.fields))
  if fault then return fault end
  for _, window in ipairs(root.windows) do
    local order = {}
    for _, number in ipairs(window.dirty) do
      local page = window.page[number] or window.first
      local list = page.list
      if not list then
        list = {}
        page.list = list
        order[#order + 1] = page
      end
      list[#list + 1], list[#list + 2] = root.values[number], window.found[number]
    end
    for _, page in ipairs(order) do
      for first = 1, #page.list, MOST_AT_ONCE do
        local last = math.min(#page.list, first + MOST_AT_ONCE - 1)
        fault = change('HSET', page.key, unpack(page.list, first, last))
        if fault then return fault end
      end
      if page.fresh and window.expires then
        local spread = tonumber(string.sub(redis.sha1hex(page.key), 1, 4), 16) % PAGE_SPREAD_MS
        fault = change('PEXPIREAT', page.key, text_of(window.expires + spread))
        if fault then return fault end
      end
    end
  end
  return nil
end
