-- deduct.lua takes amounts from balances and appends an entry for each; in store mode it looks the
-- request ids up first and records them, and counts against limits.
--
-- KEYS  per epoch: balance hash, log stream; then for an epoch with records: r0, r1, v (records.lua); then for one
--       with limits: root of the counters (limits.lua)
-- ARGV  record window in ms (decimal, at least 1; 0 when no epoch of the call has records)
--       then per epoch: epoch (decimal, 1 … 2^53 - 1), activation (decimal, same range), how many
--       operations (decimal, at least 1), 0 without records, 1 with, 2 with limits too (their script then
--       has limits.lua in front),
--       then per operation: the highest seq the caller knows (decimal, 0 … 2^53 - 1), amount in
--       minor units (decimal, 1 … 2^53 - 1), the entry as chained (ledger.Line; binary); with
--       records also: the most that the sum of deductions may come to (decimal, 0 … 2^53 - 1; 0: no
--       bound), the instant of the server's clock from which it is refused (decimal, ms since 1970;
--       0: none) and the record without its seq (binary; '' for an operation that is not to be
--       recorded nor looked up); with limits also: how many it counts for (decimal; its entry then lacks the 6
--       bytes of the instant, which is added here);
--       then with records: the request id of each operation (binary);
--       then with limits, for each operation that counts: the version of the limits and by how much the clock
--       is ahead of SQL's, in ms (decimal), and per limit ten: name, version when it changed, value (binary),
--       what to add, maximum or -1, kind (c calendar, l lifetime, f first_hit, s sliding), begin and end of the window,
--       or its length and slot, in ms, 1 where nothing was counted before, and what the ledger has
--       (`<mark>|<counter>`, or '')
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
-- A refusal writes nothing (I6). Keeps the store's part of I1: balance = granted - deducted. With
-- the ceiling, units that SQL does not know as used stay bounded (I2 after a loss). UNLOADED notes since when
-- which limits are counted, and nothing else.

-- How many keys an epoch has, and how many arguments an operation: without records, with, with limits.
local KEYS_OF, ARGUMENTS_OF = {[0] = 2, 5, 6}, {[0] = 3, 6, 7}

-- disagrees returns a reply unless the arguments are what the header says.
local function disagrees()
  local window = quantity(ARGV[1])
  local k, at = 1, 2
  while window and k <= #KEYS do
    local operations, mode = tonumber(ARGV[at + 2]) or 0, tonumber(ARGV[at + 3]) or 0
    if operations < 1 or (mode > 0 and window < 1) or (mode == 2 and not counts) then break end
    k = k + KEYS_OF[mode]
    local first = at + 4
    at = first + operations * (ARGUMENTS_OF[mode] + (mode > 0 and 1 or 0))
    for i = 1, mode == 2 and operations or 0 do
      local limits = tonumber(ARGV[first + 7 * i - 1]) or 0
      if limits > 0 then at = at + 2 + 10 * limits end
    end
  end
  if #KEYS == 0 or k ~= #KEYS + 1 or at ~= #ARGV + 1 then
    return failed('ARGUMENTS are not what the script expects')
  end
  return nil
end

local fault = disagrees()
if fault then return fault end
local window, now = tonumber(ARGV[1]), nil
if window > 0 then
  fault = keep.another_memory()
  if fault then return fault end
  now, fault = keep.clock()
  if fault then return fault end
end

local reply, n = {}, 0
local k, at = 1, 1
while k <= #KEYS do
  local balance_key, log_key = KEYS[k], KEYS[k + 1]
  local epoch, activation = ARGV[at + 1], ARGV[at + 2]
  local operations, mode = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local recorded = mode > 0
  at = at + 4
  local bucket
  bucket, fault = load(balance_key)
  if fault then return fault end
  local stands = standing(bucket, activation)
  local records, found, unreadable, ids
  local made, list -- what this call records, by id and as keep.remember wants it
  if recorded then
    made, list = {}, {}
    records, ids = {[0] = KEYS[k + 2], KEYS[k + 3], void = KEYS[k + 4]}, at + ARGUMENTS_OF[mode] * operations
    if not (bucket.broken or bucket.missing) then
      found, unreadable, fault = keep.look_up(bucket, records, now, window,
        ids + 1, ids + operations)
      if fault then return fault end
    end
  end
  local taken, counted_at = 0, recorded and ids + operations
  for i = 1, operations do
    local least, amount, line = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), ARGV[at + 3]
    local verdict, why = stands, bucket.broken
    at = at + 3
    local id, ceiling, ends, record, known, deducted, counting
    if recorded then
      id, ceiling, ends, record = ARGV[ids + i], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), ARGV[at + 3]
      at = at + 3
      if mode == 2 then
        at = at + 1
        if tonumber(ARGV[at]) > 0 then
          counting, counted_at = counts.parse(KEYS[k + 5], tonumber(ARGV[at]), counted_at)
        end
      end
      if record == '' then
        record = nil
      elseif unreadable then
        verdict, why = BROKEN, unreadable
      elseif found then
        known = made[id] or found[ids + i]
        -- From 2^53 on the sum is rounded, and above every ceiling.
        deducted = tonumber(bucket.deducted) + taken
        if known then verdict = RECORDED end
      end
    end
    if not verdict then
      if record and ends > 0 and now >= ends then
        verdict = PERIOD_OVER
      elseif bucket.seq < least then
        verdict = WENT_BACK
      elseif counting then
        verdict, why, fault = counts.judge(counting, now)
        line = line .. struct.pack('>I6', counting.now)
      end
    end
    if not verdict and not fault then
      if bucket.balance < amount then
        verdict = INSUFFICIENT
      elseif record and ceiling > 0 and amount > ceiling - deducted then
        verdict = BEHIND
      else
        verdict, why, fault = append(log_key, epoch, bucket, line)
        if verdict == OK then
          bucket.balance = bucket.balance - amount
          taken = taken + amount
          if counting then fault = counts.keep(counting) end
          if record then
            deducted = deducted + amount
            made[id] = record .. struct.pack(bucket.seq < 2 ^ 40 and '>I5' or '>I7', bucket.seq)
            list[#list + 1], list[#list + 2] = id, made[id]
          end
        end
      end
    end
    if fault then break end
    local told = verdict < EPOCH_GONE or verdict == WENT_BACK or verdict > BROKEN
    reply[n + 1] = verdict
    reply[n + 2], reply[n + 3] = why or (told and bucket.balance) or 0, told and bucket.seq or 0
    n = n + 3
    if record then
      n = n + 1
      reply[n] = known or ((verdict == OK or verdict == BEHIND) and deducted) or 0
    end
    if mode == 2 then
      n = n + 1
      reply[n] = counting and (verdict == OK or verdict >= OUTDATED) and counting.told or 0
    end
  end
  if taken > 0 then
    fault = save(balance_key, 'deducted', taken, 'balance', text_of(bucket.balance),
      'seq', text_of(bucket.seq), 'chain', bucket.chain) or fault
  end
  if list and #list > 0 then
    fault = keep.remember(balance_key, bucket, records, list) or fault
  end
  if fault then return fault end
  k, at = k + KEYS_OF[mode], recorded and counted_at or at
end
return reply
