-- deduct.lua takes amounts from balances and appends an entry for each; in store mode it looks the
-- request ids up first and records them, and counts against limits.
--
-- KEYS  per epoch: balance hash, log stream; then for an epoch with records: r0, r1, v (records.lua); then for one
--       with limits: root of the counters (limits.lua)
-- ARGV  record window in ms (decimal, at least 1; 0 when no epoch of the call has records)
--       then per epoch one argument (binary; numbers are unsigned and big-endian; a text follows its length, of 1
--       byte if nothing else is said): epoch and activation (decimal texts, 1 … 2^53 - 1), mode (1 byte: 0
--       without records, 1 with, 2 with limits too: their script then has limits.lua in front), how many
--       operations (4 bytes, at least 1), with records the version of the budget's limits that they know (7 bytes,
--       0: it never had any), with limits what is common to them (counts.parse_limits), then
--       per operation: the highest seq the caller knows (7 bytes, 0 … 2^53 - 1), amount in
--       minor units (7, 1 … 2^53 - 1), the entry as chained (ledger.Line; text, length of 4; that of one that counts
--       lacks the 6 bytes of the instant, which is added here); with records also: the most that the sum of
--       deductions may come to (7, 0 … 2^53 - 1; 0: no bound), the instant of the server's clock
--       from which it is refused (7, ms since 1970; 0: none), the record without its seq (text; ''
--       for an operation that is not to be recorded nor looked up) and the request id (text, hashed if long); with
--       limits also: what it counts for (counts.parse)
-- Returns three elements per operation: verdict, balance in minor units (or why, for BROKEN), last
-- seq; and for an operation with a record a fourth: the sum of deductions in minor units (OK,
-- BEHIND; exact below 2^53), the record found (RECORDED; binary), or 0; with limits a fifth: what is told of
-- them (counts.judge) for OK, OUTDATED, UNLOADED, OVER_LIMIT of an operation that counts, or 0.
-- Errors: NOTDONE, HALFDONE (shared.lua); NOTDONE REPLACED, with records: another memory.
--
-- Atomic because the comparison with the balance and the subtraction decide together that no unit
-- is used twice (I2), and the look-up and the record that no id is deducted for twice (I4).
-- Without records it is not idempotent: a repeated operation is admitted again, and the ledger,
-- whose primary key is the request id, counts it as a duplicate and returns its units (I4). With
-- records it is idempotent by the id: a repetition answers RECORDED and writes nothing.
-- What is taken from one balance is appended at once, before anything else is written. A refusal writes nothing (I6).
-- Keeps the store's part of I1: balance = granted - deducted. With the ceiling, units that SQL does not know as used stay bounded (I2 after a loss). UNLOADED notes since when
-- which limits are counted, and nothing else. What is OK or UNLOADED also notes the version of the limits in the
-- balance hash (`limits`, the highest): whoever knows older ones is OUTDATED from then on, also if it counts nothing.

-- How many keys an epoch has: without records, with, with limits.
local KEYS_OF = {[0] = 2, 5, 6}

local window, now = quantity(ARGV[1]), nil
-- The epochs of the call; and of its operations, in their order, the arguments.
local epochs = {}
local least, amounts, lines, ceilings, ends, recordings = {}, {}, {}, {}, {}, {}
local first_count, counted = {}, {}

-- parse_epoch reads the argument of an epoch, whose operations follow the n-th of the call. Raises an error if it is
-- none.
local function parse_epoch(text, n)
  local e, at = {first = n + 1, ids = {}, key = nil, epoch = nil, activation = nil, mode = nil, operations = nil,
    version = 0, limits = nil, first_count = nil, last_count = nil}, nil
  e.epoch, e.activation, e.mode, e.operations, at = struct.unpack('>I1c0I1c0BI4', text)
  assert(KEYS_OF[e.mode] and e.operations > 0 and (e.mode == 0 or window > 0) and (e.mode < 2 or counts))
  if e.mode > 0 then e.version, at = struct.unpack('>I7', text, at) end
  if e.mode == 2 then e.limits, at = counts.parse_limits(text, at) end
  local counting = counts and counts.length() or 0
  e.first_count = counting + 1
  for i = n + 1, n + e.operations do
    if e.mode == 0 then
      least[i], amounts[i], lines[i], at = struct.unpack('>I7I7I4c0', text, at)
    else
      least[i], amounts[i], lines[i], ceilings[i], ends[i], recordings[i], e.ids[i - n], at =
        struct.unpack('>I7I7I4c0I7I7I1c0I1c0', text, at)
    end
    if e.mode == 2 then
      first_count[i] = counting + 1
      counted[i], at = counts.parse(text, at, e.limits)
      counting = counting + counted[i]
    end
  end
  e.last_count = counting
  assert(at == #text + 1)
  return e
end

-- parse reads the arguments. Raises an error unless they are what the header says.
local function parse()
  local k, n = 1, 0
  for g = 2, #ARGV do
    local e = parse_epoch(ARGV[g], n)
    e.key, n, k = k, n + e.operations, k + KEYS_OF[e.mode]
    epochs[g - 1] = e
  end
  assert(n > 0 and k == #KEYS + 1)
end

if not (window and pcall(parse)) then
  return failed('ARGUMENTS are not what the script expects')
end
local fault
if window > 0 then
  fault = another_memory()
  if fault then return fault end
  now, fault = keep.clock()
  if fault then return fault end
end

local reply, n = {}, 0
for _, e in ipairs(epochs) do
  local k, mode, first, last = e.key, e.mode, e.first, e.first + e.operations - 1
  local balance_key, log_key = KEYS[k], KEYS[k + 1]
  local bucket
  bucket, fault = load(balance_key)
  if fault then return fault end
  local stands = standing(bucket, e.activation)
  local records, found, unreadable
  local made, list -- what is recorded, by id and as keep.remember wants it
  if mode > 0 then
    records = {[0] = KEYS[k + 2], KEYS[k + 3], void = KEYS[k + 4]}
    if not (bucket.broken or bucket.missing) then
      found, unreadable, fault = keep.look_up(bucket, records, now, window, e.ids)
      if fault then return fault end
    end
  end
  local counting = mode == 2 and not stands
  local stamp = counting and struct.pack('>I6', now - e.limits.ahead)
  -- From 2^53 on the sum is rounded, and above every ceiling.
  local before, start = tonumber(bucket.deducted), n
  local untaken, untaken_why -- the verdict where the log takes no entries
  local balance, seq -- after what the call has taken so far
  local entries, newer -- what it appends; a newer version of the limits is to be noted
  repeat -- once more where the log takes no entries
    balance, seq, entries, newer, n = bucket.balance, bucket.seq, {}, false, start
    made, list = {}, {}
    if counting then
      fault = counts.prepare(KEYS[k + 5], e.limits, e.first_count, e.last_count, now)
      if fault then return fault end
    end
    for i = first, last do
      local amount, verdict, why = amounts[i], stands, bucket.broken
      local id, record, known, deducted
      local counts_for = counting and counted[i] > 0
      if mode > 0 then
        id, record = e.ids[i - first + 1], recordings[i]
        if record == '' then
          record = nil
        elseif unreadable then
          verdict, why = BROKEN, unreadable
        elseif found then
          known = made[id] or found[i - first + 1]
          deducted = before + (bucket.balance - balance)
          if known then verdict = RECORDED end
        end
      end
      if not verdict then
        if record and ends[i] > 0 and now >= ends[i] then
          verdict = PERIOD_OVER
        elseif seq < least[i] then
          verdict = WENT_BACK
        elseif record and e.version < bucket.limits then
          verdict = OUTDATED
          if counts_for then counts.tell_outdated() end
        elseif counts_for then
          verdict, why = counts.judge(first_count[i], counted[i])
          newer = newer or (verdict == UNLOADED and e.version > bucket.limits)
        end
      end
      if not verdict then
        if balance < amount then
          verdict = INSUFFICIENT
        elseif record and ceilings[i] > 0 and amount > ceilings[i] - deducted then
          verdict = BEHIND
        elseif untaken then
          verdict, why = untaken, untaken_why
        else
          verdict, balance, seq = OK, balance - amount, seq + 1
          entries[#entries + 1] = counts_for and lines[i] .. stamp or lines[i]
          if counts_for then counts.keep(first_count[i], counted[i]) end
          if record then
            newer = newer or e.version > bucket.limits
            deducted = deducted + amount
            made[id] = record .. struct.pack(seq < 2 ^ 40 and '>I5' or '>I7', seq)
            list[#list + 1], list[#list + 2] = id, made[id]
          end
        end
      end
      local told = verdict < EPOCH_GONE or verdict == WENT_BACK or verdict > BROKEN
      reply[n + 1] = verdict
      reply[n + 2], reply[n + 3] = why or (told and balance) or 0, told and seq or 0
      n = n + 3
      if record then
        n = n + 1
        reply[n] = known or ((verdict == OK or verdict == BEHIND) and deducted) or 0
      end
      if mode == 2 then
        n = n + 1
        reply[n] = counts_for and (verdict == OK or verdict >= OUTDATED) and counts.told or 0
      end
    end
    if #entries == 0 then break end
    untaken, untaken_why, fault = append(log_key, e.epoch, bucket, entries)
    if fault then return fault end
  until untaken == OK
  if counting then
    fault = counts.flush()
    if fault then return fault end
  end
  if #entries > 0 then
    fault = save(balance_key, 'deducted', bucket.deducted, bucket.balance - balance, 'balance', text_of(balance),
      'seq', text_of(bucket.seq), 'chain', bucket.chain)
    if fault then return fault end
  end
  if newer then
    local done = redis.pcall('HSET', balance_key, 'limits', text_of(e.version))
    if type(done) == 'table' then return failed(done.err) end
    written = true
  end
  if #list > 0 then
    fault = keep.remember(balance_key, bucket, records, list)
    if fault then return fault end
  end
end
return reply
