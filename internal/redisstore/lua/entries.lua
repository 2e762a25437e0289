-- entries.lua loads and saves the entries of buckets, which are spread over the partition's hashes with one field
-- per bucket. It follows shared.lua in the scripts that open, fund, close and read epochs.
--
-- KEYS[2] newest: the newest epoch that was opened or closed here      KEYS[3] epoch: see below
-- KEYS[4] balance   KEYS[5] taken   KEYS[6] given back   KEYS[7] number of the last grant
-- An epoch is open ("7"), closed ("7 closed"), closed because the bucket is being moved ("7 moving"), or a
-- copy that is incomplete ("7 copying <attempt>") or complete ("7 copied").

-- load returns the entries of buckets by id: {newest, epoch, state, balance, taken, given, grant}. epoch is 0
-- if there is no entry. broken is set if one of the values is not a number.
local function load(buckets)
  local columns = {}
  for k = 2, 7 do columns[k] = call('HMGET', KEYS[k], unpack(buckets)) end
  local entries = {}
  for i = 1, #buckets do
    local id = buckets[i]
    if not entries[id] then
      local text = columns[3][i]
      local epoch, state
      if text then epoch, state = epoch_of(text) end
      local e = {id = id, newest = number(columns[2][i] or '0') or MAX, epoch = epoch or 0, state = state}
      if e.epoch > 0 then
        e.balance, e.taken = number(columns[4][i]), number(columns[5][i])
        e.given, e.grant = number(columns[6][i]), number(columns[7][i])
        e.broken = not (e.balance and e.taken and e.given and e.grant)
        if e.epoch > e.newest then e.newest = e.epoch end
      end
      entries[id] = e
    end
  end
  return entries
end

-- begin sets an entry to an epoch without units.
local function begin(e, epoch, state)
  e.epoch, e.state, e.newest, e.broken, e.dirty = epoch, state, epoch, false, true
  e.balance, e.taken, e.given, e.grant = 0, 0, 0, 0
end

-- save writes the entries that are dirty.
local function save(entries)
  local columns, m = {{}, {}, {}, {}, {}, {}}, 0
  for id, e in pairs(entries) do
    if e.dirty then
      local text = string.format('%.0f', e.epoch)
      if e.state ~= '' then text = text .. ' ' .. e.state end
      local values = {e.newest, text, e.balance, e.taken, e.given, e.grant}
      for k = 1, 6 do columns[k][m + 1], columns[k][m + 2] = id, values[k] end
      m = m + 2
    end
  end
  if m > 0 then
    for k = 1, 6 do call('HSET', KEYS[k + 1], unpack(columns[k])) end
  end
end

-- absent returns the verdict on an epoch without an entry: CLOSED if a later epoch is known, LOST otherwise.
local function absent(e, epoch)
  if e.newest > epoch then return CLOSED end
  return LOST
end

-- figures appends the fields of bucket.Entry to an answer.
local function figures(answer, verdict, e)
  local n = #answer
  if verdict == LOST or verdict == BROKEN or verdict == NOT_FOUND then
    answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = verdict, 0, 0, 0
    answer[n + 5], answer[n + 6] = 0, 0
  else
    answer[n + 1], answer[n + 2], answer[n + 3] = verdict, e.epoch, e.balance or 0
    answer[n + 4], answer[n + 5], answer[n + 6] = e.taken or 0, e.given or 0, e.grant or 0
  end
end
