-- limits.lua: what deduct.lua and unload.lua know of the counters of limits (store mode). It is put in
-- front of them, after shared.lua and records.lua.
--
-- The counters of a bucket belong to the epoch that they began with: bucket.Counting.From. Its root key is
--   <lane>:<bucket>:<from>:l:1                    a hash: `version` (of the limits, the highest that was counted
--                                                 by), `mark` (the last one that an unloading gave), and for
--                                                 each limit `@<name>` = `<changed> <since> <generation>`
-- and all other keys are made of it, with its hash tag:
--   <root>:<limit>:<changed>:<window><path>       a hash, called a page: value -> counter
-- The window is the begin of a calendar window in ms, 0 for a lifetime, g<generation> for the others. A page
-- takes 128 values, which Redis keeps in one piece of memory (listpack); a value that is not in a full page is
-- looked for in one of its 16 children, whose path has one more digit of the value's SHA-1. So pages grow
-- as there are more values, no key grows without bound, and nothing is ever moved. A value is never
-- removed from its page: pages expire, all those of a window at once.
--
-- A counter is the decimal number counted (calendar, lifetime); `<number> <began in ms>` (first_hit);
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

local counts = {}

-- How many values a page takes: hash-max-listpack-entries, as it comes.
local PAGE_VALUES = 128
-- How much longer than its window a page is kept, in ms.
local PAGE_MARGIN_MS = 60000

local NOT_A_COUNTER = 'a counter of a limit is not what it must be'

-- read returns a reply of a command that only reads; or nil and why it is broken; or nil, nil and the reply of the
-- failed call.
local function read(...)
  local got = redis.pcall(...)
  if type(got) == 'table' and got.err then
    if is_wrong_type(got.err) then return nil, 'the counters of the limits are not a hash' end
    return nil, nil, failed(got.err)
  end
  return got
end

-- change runs a write. Returns nil, or the reply of the failed call.
local function change(...)
  local done = redis.pcall(...)
  if type(done) == 'table' and done.err then return failed(done.err) end
  written = true
  return nil
end

-- find looks a value up in the pages of a window. Returns the counter or false, the page where it is or has
-- to go, and whether that page is new; or nil, why, fault as read.
local function find(window, value)
  local page, digits = window, nil
  for depth = 0, 40 do
    local got, why, fault = read('HGET', page, value)
    if got == nil then return nil, why, fault end
    if got then return got, page, false end
    local size
    size, why, fault = read('HLEN', page)
    if not size then return nil, why, fault end
    if size < PAGE_VALUES then return false, page, size == 0 end
    digits = digits or redis.sha1hex(value)
    page = page .. (depth == 0 and ':' or '') .. string.sub(digits, depth + 1, depth + 1)
  end
  return nil, 'the counters of the limits are too deep'
end

-- counts.parse reads the arguments of one operation from ARGV[at + 1] on: n limits. Returns what it counts
-- and the place of its last argument.
function counts.parse(root, n, at)
  local o = {root = root, version = tonumber(ARGV[at + 1]), ahead = tonumber(ARGV[at + 2])}
  at = at + 2
  for i = 1, n do
    o[i] = {limit = ARGV[at + 1], changed = ARGV[at + 2], value = ARGV[at + 3], add = tonumber(ARGV[at + 4]),
      max = tonumber(ARGV[at + 5]), kind = ARGV[at + 6], from = tonumber(ARGV[at + 7]),
      to = tonumber(ARGV[at + 8]), new = ARGV[at + 9] == '1', loaded = ARGV[at + 10]}
    at = at + 10
  end
  return o, at
end

-- heard reads what the root knows of the limits of an operation: sets .heard_version, and for each
-- count .since and .generation (nil: none was written) and .unheard. Returns whether the operation knows older
-- limits than that; or nil, why, fault as read.
local function heard(o, now)
  local fields = {'version'}
  for i, c in ipairs(o) do fields[i + 1] = '@' .. c.limit end
  local got, why, fault = read('HMGET', o.root, unpack(fields))
  if not got then return nil, why, fault end
  o.heard_version = tonumber(got[1] or '0')
  if not o.heard_version then return nil, NOT_A_COUNTER end
  local older = o.version < o.heard_version
  for i, c in ipairs(o) do
    local changed, since, generation = string.match(got[i + 1] or '', '^(%d+) (%d+) (%d*)$')
    if got[i + 1] and not changed then return nil, NOT_A_COUNTER end
    if changed and tonumber(changed) > tonumber(c.changed) then
      older = true
    elseif changed == c.changed then
      c.since, c.generation = tonumber(since), tonumber(generation)
    else
      c.since, c.unheard = c.new and 0 or now + 1, true -- what was before may have been in this very ms
    end
  end
  return older
end

-- pages sets .window, the key of the pages of the present window, .before of the generation before it,
-- .expires (on the server's clock, in ms; nil: never) and .next, the generation to note, nil if it is noted.
local function pages(o, c, now)
  local prefix = o.root .. ':' .. c.limit .. ':' .. c.changed .. ':'
  if c.kind == 'c' or c.kind == 'l' then
    c.window = prefix .. text_of(c.from)
    if c.kind == 'c' then c.expires = c.to + o.ahead + PAGE_MARGIN_MS end
    return
  end
  local span = c.from + (c.kind == 's' and c.to or 0)
  local generation = math.max(math.floor(now / span), c.generation or 0)
  if generation ~= c.generation then c.next = generation end
  c.window, c.before = prefix .. 'g' .. text_of(generation), prefix .. 'g' .. text_of(generation - 1)
  c.expires = (generation + 2) * span + o.ahead + PAGE_MARGIN_MS
end

-- look_up sets .found, the counter or false, .page, where it goes, and .fresh. Returns true; or nil, why,
-- fault as read.
local function look_up(c)
  local found, page, fresh = find(c.window, c.value)
  if found == nil then return nil, page, fresh end
  c.found, c.page, c.fresh = found, page, fresh
  if not found and c.before then
    local older, why, fault = find(c.before, c.value)
    if older == nil then return nil, why, fault end
    c.found = older
  end
  return true
end

-- missing returns the mark that a counter has to be loaded for, nil if it need not be.
local function missing(c, now)
  if c.found then return tonumber(string.match(c.found, '^u(%d+)$')) end
  local begin = c.from
  if c.kind == 'f' or c.kind == 's' then begin = now - c.from - (c.kind == 's' and c.to or 0) end
  if begin < c.since then return 0 end
  return nil
end

-- slots_of reads a sliding counter: sets .slots (number by slot), .first (the oldest that counts, or the present
-- one) and .used. Returns false if it is none.
local function slots_of(c, now)
  local slot, used, read_to = 0, 0, 0
  c.slots, c.used, c.first = {}, 0, math.floor(now / c.to)
  local text = c.found or ''
  for step, number, last in string.gmatch(text, '(%d+):(%d+)()') do
    slot, used, read_to = slot + tonumber(step), tonumber(number), last - 1
    -- It overlaps the last ms of the length, now included.
    if used > 0 and (slot + 1) * c.to > now - c.from + 1 then
      c.slots[slot] = used
      c.used = math.min(c.used + used, MAX_AMOUNT)
      c.first = math.min(c.first, slot)
    end
  end
  return read_to == #text
end

-- open reads a counter: sets .used, and .began of a first_hit one. Returns false if it is none.
local function open(c, now)
  if c.kind == 's' then return slots_of(c, now) end
  if c.kind ~= 'f' then
    c.used = quantity(c.found or '0')
    return c.used ~= nil
  end
  local used, began = string.match(c.found or '0 0', '^(%d+) (%d+)$')
  c.used, c.began = quantity(used), quantity(began)
  if not c.used or not c.began then return false end
  if c.began == 0 or now >= c.began + c.from then
    c.used, c.began = 0, now
  end
  c.began = math.min(c.began, now)
  return true
end

-- reset_of is when a window is over, or, sliding, when its oldest slot leaves it, in ms; 0: never.
local function reset_of(c)
  if c.kind == 'c' then return c.to end
  if c.kind == 'f' then return c.began + c.from end
  if c.kind == 's' then return (c.first + 1) * c.to - 1 + c.from end
  return 0
end

-- hear notes which limits there are. Returns nil, or the reply of the failed call.
local function hear(o)
  local fields, n = {}, 0
  if o.version ~= o.heard_version then fields[1], fields[2], n = 'version', text_of(o.version), 2 end
  for _, c in ipairs(o) do
    if c.unheard or c.next then
      fields[n + 1], fields[n + 2] = '@' .. c.limit, c.changed .. ' ' .. text_of(c.since) .. ' ' ..
        ((c.next or c.generation) and text_of(c.next or c.generation) or '')
      n = n + 2
    end
  end
  if n == 0 then return nil end
  return change('HSET', o.root, unpack(fields))
end

-- counts.judge looks at an operation's limits at a time of the server. Sets .told, what the script answers of them:
-- the instant, the place of the first limit that would be exceeded or -1, then for UNLOADED a mark per limit (-1:
-- nothing is missing), else two numbers per limit: used, reset. Returns nil when they allow the operation, else a
-- verdict; then why it is BROKEN; then the reply of a failed call.
function counts.judge(o, time)
  local now = time - o.ahead
  o.now, o.told = now, {now, -1}
  local older, why, fault = heard(o, now)
  if older == nil then return why and BROKEN, why, fault end
  if older then return OUTDATED end
  for _, c in ipairs(o) do
    if c.kind == 'c' and (now < c.from or now >= c.to) then return OUTDATED end
  end
  local unloaded = false
  for i, c in ipairs(o) do
    local done
    pages(o, c, now)
    done, why, fault = look_up(c)
    if not done then return why and BROKEN, why, fault end
    local mark = missing(c, now)
    o.told[i + 2] = -1
    if mark then
      local loaded, counter = string.match(c.loaded, '^(%d+)|(.*)$')
      if tonumber(loaded) ~= mark then
        o.told[i + 2], unloaded = mark, true
      else
        c.found = counter
      end
    end
    if not unloaded and not open(c, now) then return BROKEN, NOT_A_COUNTER end
  end
  if unloaded then
    return UNLOADED, nil, hear(o)
  end
  for i, c in ipairs(o) do
    if o.told[2] < 0 and c.max >= 0 and c.used > c.max - c.add then o.told[2] = i - 1 end
    o.told[2 * i + 1], o.told[2 * i + 2] = c.used, reset_of(c)
  end
  if o.told[2] >= 0 then return OVER_LIMIT end
  return nil
end

-- text_of_slots writes a sliding counter.
local function text_of_slots(c)
  local order, text, before = {}, {}, 0
  for slot in pairs(c.slots) do order[#order + 1] = slot end
  table.sort(order)
  for i, slot in ipairs(order) do
    text[i] = text_of(slot - before) .. ':' .. text_of(c.slots[slot])
    before = slot
  end
  return table.concat(text, ' ')
end

-- put writes a counter into its page. Returns nil, or the reply of the failed call.
local function put(c, text)
  local fault = change('HSET', c.page, c.value, text)
  if not fault and c.fresh and c.expires then
    fault = change('PEXPIREAT', c.page, text_of(c.expires))
  end
  return fault
end

-- counts.keep counts an operation that was admitted. Returns nil, or the reply of the failed call.
function counts.keep(o)
  local fault = hear(o)
  for i, c in ipairs(o) do
    if fault then return fault end
    c.used = math.min(c.used + c.add, MAX_AMOUNT)
    local text = text_of(c.used)
    if c.kind == 'f' then
      text = text .. ' ' .. text_of(c.began)
    elseif c.kind == 's' then
      local slot = math.floor(o.now / c.to)
      c.slots[slot] = math.min((c.slots[slot] or 0) + c.add, MAX_AMOUNT)
      text = text_of_slots(c)
    end
    fault = put(c, text)
    o.told[2 * i + 1], o.told[2 * i + 2] = c.used, reset_of(c)
  end
  return fault
end

-- counts.unload makes counters unknown. Returns nil; or why, fault as read.
function counts.unload(o, time)
  local now = time - o.ahead
  local older, why, fault = heard(o, now)
  if older == nil then return why, fault end
  for _, c in ipairs(o) do
    local over = c.kind == 'c' and now >= c.to + PAGE_MARGIN_MS
    if not c.unheard and c.since and not over then
      pages(o, c, now)
      local done
      done, why, fault = look_up(c)
      if not done then return why, fault end
      local mark = redis.pcall('HINCRBY', o.root, 'mark', 1)
      if type(mark) == 'table' then return nil, failed(mark.err) end
      written = true
      fault = hear(o) or put(c, 'u' .. text_of(mark))
      if fault then return nil, fault end
    end
  end
  return nil
end
