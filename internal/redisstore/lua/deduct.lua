-- deduct.lua deducts from buckets of a partition (bucket.Counter.Deduct), or predicts the verdicts (Predict).
--
-- KEYS[1] marker: see shared.lua      KEYS[2] newest, KEYS[3] epoch, KEYS[4] balance, KEYS[5] taken: see
-- entries.lua      KEYS[6] limits: bucket -> newest version of its limits      KEYS[7] set of changes
-- then three keys per page: records of the present slice and of the one before, hashes `bucket:id` ->
-- record; counters, a hash `bucket:value` -> all windows of the value (counters.lua)
-- ARGV[4] MessagePack array: slice (decimal text), buckets (decimal texts), their epochs (decimal texts),
--   their terms (indexes of the next), terms (counters.lua), pages, predict (1: write nothing)
--   a page is {ids (`bucket:id`), records, amounts (units), buckets (indexes), not after (ms),
--   values (indexes, or 0), names of values (`bucket:value`), terms of values (indexes), own}
--   own is 0, or an array per operation of {counts, most}, each 0 or one number per limit
-- Returns {now_ms, balances, exceptions, values}:
--   balances before the call, 0 if unreadable
--   exceptions has three elements for each operation that was not accepted: its index (operations are
--   numbered from 1 through all pages), a verdict, and a record or 0
--   values has an array per page of the counters before the call, nil if there was none
--
-- It reads each key once, decides in local variables, and writes each key once. A refusal writes nothing
-- (I6). A repeat finds its record (I4). The order of checks is that of bucket.Counter.Deduct.
local m, wrong = memory(7, 4)
if not m then return wrong end
local slice, buckets, epochs, terms_of, terms, pages, predict = unpack(unpackm(ARGV[4]))
if slice ~= m.slice then return other_slice(m) end
local now = clock()
local epoch = call('HMGET', KEYS[3], unpack(buckets))
local balance = call('HMGET', KEYS[4], unpack(buckets))
local taken = call('HMGET', KEYS[5], unpack(buckets))

-- verdict_on returns the verdict on a bucket whose entry is not the requested epoch, or not open.
local function verdict_on(b)
  local asked = tonumber(epochs[b])
  local is, state = epoch_of(epoch[b] or '0')
  if not is or is == asked and state == '' then return BROKEN end
  if is == asked and state ~= 'closed' or sub(state or '', 1, 7) == 'copying' then return MOVING end
  if is >= asked then return CLOSED end
  if (number(call('HGET', KEYS[2], buckets[b]) or '0') or 0) > asked then return CLOSED end
  return LOST
end

for t = 1, #terms do
  local x = terms[t]
  x.over = x[1] > 0 and now >= x[1]
  prepare(x, now)
end
local versions = call('HMGET', KEYS[6], unpack(buckets))
local first, later, left, sum, was, rises = {}, {}, {}, {}, {}, {}
local changed_versions, cv = {}, 0
for b = 1, #buckets do
  local x = terms[terms_of[b]]
  if epoch[b] ~= epochs[b] then
    first[b] = verdict_on(b)
    left[b] = 0
    if predict == 1 and (first[b] == CLOSED or first[b] == LOST) then first[b], sum[b] = nil, 0 end
  else
    left[b], sum[b] = number(balance[b]), number(taken[b])
    if not left[b] or not sum[b] then first[b], left[b] = BROKEN, 0 end
  end
  was[b] = left[b]
  local version = 0
  if versions[b] then version = number(versions[b]) end
  if not version then first[b] = first[b] or BROKEN
  elseif x.over then later[b] = OVER
  elseif version > x[2] then later[b] = OUTDATED
  elseif version < x[2] then rises[b] = x[2]
  end
  if not later[b] and x.window_over then later[b] = WINDOW_OVER end
end

local exceptions, k, values, base = {}, 0, {}, 0
local news, counters, marks = {}, {}, {}
for p = 1, #pages do
  local ids, records, amounts, of, till, at, names, terms_at, own = unpack(pages[p])
  local now_key, before_key, counter_key = KEYS[3 * p + 5], KEYS[3 * p + 6], KEYS[3 * p + 7]
  local found = call('HMGET', now_key, unpack(ids))
  local older = call('HMGET', before_key, unpack(ids))
  local state = #names > 0 and call('HMGET', counter_key, unpack(names)) or names
  values[p] = state
  local after, decoded, dirty = {}, {}, {}
  local stamp, made, fresh, f = packm(now), {}, {}, 0
  for i = 1, #ids do
    local b, a = of[i], amounts[i]
    local why, record = first[b], 0
    if not why then
      if till[i] < now then why = TOO_OLD
      else
        record = found[i] or older[i] or made[ids[i]] or 0
        if record ~= 0 then why = KNOWN else why = later[b] end
      end
    end
    if not why then
      local u, rest = at[i], left[b] - a
      local lacks = rest < 0 or was[b] - rest > MAX - sum[b] -- the sum must stay a number
      if u > 0 then
        local x, s = terms[terms_at[u]], decoded[u]
        local text = x.quick and own == 0 and s == nil and quick(after[u] or state[u], x, a)
        if text then
          if lacks then why = SHORT else after[u] = text end
        else
          if s == nil then
            s = decode(after[u] or state[u], x, now) or false
            decoded[u] = s
          end
          local mine = own ~= 0 and own[i]
          if not s then why = BROKEN
          elseif exceeds(s, x, a, mine) then why = LIMITED
          elseif lacks then why = SHORT
          else count(s, x, a, mine) dirty[u] = true
          end
        end
      elseif lacks then why = SHORT
      end
      if not why then
        left[b] = rest
        local text = records[i] .. stamp
        fresh[f + 1], fresh[f + 2] = ids[i], text
        made[ids[i]] = text
        f = f + 2
      end
    end
    if why then
      exceptions[k + 1], exceptions[k + 2], exceptions[k + 3] = base + i, why, record
      k = k + 3
    end
  end
  base = base + #ids
  for u in pairs(dirty) do after[u] = encode(decoded[u], terms[terms_at[u]]) end
  local c, n = {}, 0
  for u = 1, #names do
    local text = after[u]
    if text then
      c[n + 1], c[n + 2] = names[u], text
      n = n + 2
    end
  end
  news[p], counters[p] = fresh, c
end

local ids, lefts, sums, n, c = {}, {}, {}, 0, 0
for b = 1, #buckets do
  if left[b] ~= was[b] then
    c = c + 1
    ids[c] = buckets[b]
    lefts[n + 1], lefts[n + 2] = buckets[b], left[b]
    sums[n + 1], sums[n + 2] = buckets[b], sum[b] + (was[b] - left[b]) -- in this order: exact up to 2^53
    n = n + 2
    if rises[b] then
      changed_versions[cv + 1], changed_versions[cv + 2] = buckets[b], rises[b]
      cv = cv + 2
    end
  end
end
if c > 0 and predict == 0 then
  call('SADD', KEYS[7], unpack(ids))
  for p = 1, #pages do
    if #news[p] > 0 then call('HSET', KEYS[3 * p + 5], unpack(news[p])) end
    if #counters[p] > 0 then call('HSET', KEYS[3 * p + 7], unpack(counters[p])) end
  end
  call('HSET', KEYS[4], unpack(lefts))
  call('HSET', KEYS[5], unpack(sums))
  if cv > 0 then call('HSET', KEYS[6], unpack(changed_versions)) end
end
return {now, was, exceptions, values}
