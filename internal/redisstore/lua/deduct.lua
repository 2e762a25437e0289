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
--       0: it never had any), with limits by how much the clock is ahead of SQL's in ms (8 bytes, signed) and the
--       limits (counts.parse_limits; `before` are those of the epoch before), then
--       per operation: the highest seq the caller knows (7 bytes, 0 … 2^53 - 1), amount in minor units (7, 1 …
--       2^53 - 1); with records also: the most that the sum of deductions may come to (7, 0 … 2^53 - 1; 0: no bound),
--       the instant of the server's clock from which it is refused (7, ms since 1970; 0: none), the record without its
--       seq (text; '' for an operation that is not to be recorded nor looked up); with limits also: how many
--       counts it has (1);
--       then per operation 'e' (1 byte: the field of the log) and the entry as chained (ledger.Line; text, length of 4;
--       that of one that counts lacks the 6 bytes of the instant, which is added here);
--       then with records per operation the request id (text, hashed if long);
--       then with limits what the operations count for (counts.parse)
-- Returns per epoch a text (binary, as above) and what it refers to, all in one list. The text: balance in minor
-- units, last seq and sum of deductions in minor units (exact below 2^53) as they were before (8 each; 0 where the bucket
-- is missing or broken), the instant that limits were judged by (8, ms since 1970 by SQL's clock; 0 without limits),
-- the verdict of each operation (1), and with limits what is told of those that are OK, UNLOADED or OVER_LIMIT and
-- count, in their order (counts.told). From amounts and verdicts follow balance, seq and sum after each. It refers to,
-- in the operations' order: why (BROKEN) and the record found (RECORDED; binary).
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

-- How many keys an epoch has: without records, with, with limits. And what a row of an operation is.
local KEYS_OF = {[0] = 2, 5, 6}
local ROW = {[0] = '>I7I7', '>I7I7I7I7I1c0', '>I7I7I7I7I1c0B'}
local WIDTH = {[0] = 2, 5, 6}

local window, now = quantity(ARGV[1]), nil
local epochs = {}
local pack = struct.pack

-- parse_epoch reads the argument of an epoch, which another precedes or not. Raises an error if it is none.
local function parse_epoch(text, before)
  local e, at = {epoch = nil, activation = nil, mode = nil, operations = nil, version = 0, rows = nil, lines = nil,
    ids = nil}, nil
  local mode, n
  e.epoch, e.activation, mode, n, at = unpack_text('>I1c0I1c0BI4', text)
  assert(KEYS_OF[mode] and n > 0 and (mode == 0 or window > 0) and (mode < 2 or counts))
  e.mode, e.operations = mode, n
  if mode > 0 then e.version, at = unpack_text('>I7', text, at) end
  if mode == 2 then
    local counted = {ahead = nil, limits = nil, list = nil, values = nil, size = nil, marks = nil, texts = nil}
    counted.ahead, at = unpack_text('>i8', text, at)
    counted.limits, at = counts.parse_limits(text, at, before and before.counted and before.counted.limits)
    e.counted = counted
  end
  e.rows, at = rows(ROW[mode], WIDTH[mode], n, text, at)
  e.lines, at = rows('>c1I4c0', 2, n, text, at)
  if mode > 0 then e.ids, at = rows('>I1c0', 1, n, text, at) end
  if mode == 2 then
    local list, counting = e.rows, 0
    for k = 6, 6 * n, 6 do counting = counting + list[k] end
    at = counts.parse(e.counted, text, at, counting)
  end
  assert(at == #text + 1)
  return e
end

-- parse reads the arguments. Raises an error unless they are what the header says.
local function parse()
  local k = 1
  for g = 2, #ARGV do
    local e = parse_epoch(ARGV[g], epochs[g - 2])
    epochs[g - 1], k = e, k + KEYS_OF[e.mode]
  end
  assert(k > 1 and k == #KEYS + 1)
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

local reply, answered, k = {}, 0, 1
for g = 1, #epochs do
  local e = epochs[g]
  local mode, operations, list, lines, width = e.mode, e.operations, e.rows, e.lines, WIDTH[e.mode]
  local balance_key, log_key = KEYS[k], KEYS[k + 1]
  local bucket, _, slice
  bucket, fault, _, slice = load(balance_key, mode > 0)
  if fault then return fault end
  local stands, broken = standing(bucket, e.activation), bucket.broken
  local ids, found, unreadable = e.ids, nil, nil
  if mode > 0 then
    if not (broken or bucket.missing) then
      found, unreadable, fault = keep.look_up(slice, k + 2, now, window, ids, operations)
      if fault then return fault end
    end
  end
  local counting = mode == 2 and not stands
  local judged = mode == 2 and now - e.counted.ahead or 0
  local stamp = counting and pack('>I6', judged) or ''
  local older = mode > 0 and not stands and e.version < bucket.limits
  -- From 2^53 on the sum is rounded, and above every ceiling.
  local start, before = bucket.balance or 0, tonumber(bucket.deducted or '0')
  local head = pack('>I8I8I8I8', start, bucket.seq or 0, before, judged)
  local untaken, untaken_why -- the verdict where the log takes no entries
  local balance, seq -- after what the call has taken so far
  local entries, newer -- how many of lines, from the first on, it appends; a newer version of the limits is to be noted
  local made, kept, kept_n -- what is recorded, by id and as keep.remember wants it
  local verdicts, texts, texts_n -- once one is not OK; what the answer refers to
  repeat -- once more where the log takes no entries
    balance, seq, entries, newer = start, bucket.seq, 0, false
    kept_n, verdicts, texts_n = 0, nil, 0
    if mode > 0 then made, kept = {}, {} end
    if counting then
      fault = counts.prepare(KEYS[k + 5], e.counted, now)
      if fault then return fault end
    end
    local at, count_at, counted = 0, 1, 0 -- before the operation's row; its counts, and how many
    for i = 1, operations do
      local amount, verdict, why = list[at + 2], stands, broken
      local record, known, deducted
      if mode > 0 then
        record = list[at + 5]
        if record == '' then
          record = nil
        elseif unreadable then
          verdict, why = BROKEN, unreadable
        elseif found then
          known = made[ids[i]] or found[i]
          deducted = before + (start - balance)
          if known then verdict = RECORDED end
        end
        if counting then
          count_at = count_at + 3 * counted
          counted = list[at + 6]
        end
      end
      if not verdict then
        if record and list[at + 4] > 0 and now >= list[at + 4] then
          verdict = PERIOD_OVER
        elseif seq < list[at + 1] then
          verdict = WENT_BACK
        elseif record and older then
          verdict = OUTDATED
        elseif counted > 0 then
          verdict, why = counts.judge(count_at, counted)
          newer = newer or (verdict == UNLOADED and e.version > bucket.limits)
        end
      end
      if not verdict then
        if balance < amount then
          verdict = INSUFFICIENT
        elseif record and list[at + 3] > 0 and amount > list[at + 3] - deducted then
          verdict = BEHIND
        elseif untaken then
          verdict, why = untaken, untaken_why
        else
          verdict, balance, seq = OK, balance - amount, seq + 1
          entries = entries + 1
          -- The lines of others are not needed any more: in the second round nothing is appended.
          if entries < i then lines[2 * entries] = lines[2 * i] end
          if counted > 0 then counts.keep(count_at, counted) end
          if record then
            newer = newer or e.version > bucket.limits
            local id = ids[i]
            record = pack(seq < 2 ^ 40 and '>c0I5' or '>c0I7', record, seq)
            made[id], kept[kept_n + 1], kept_n = record, id, kept_n + 2
            kept[kept_n] = record
          end
        end
      end
      if verdict ~= OK and not verdicts then
        verdicts = {}
        for j = 1, i - 1 do verdicts[j] = OK end
      end
      if verdicts then verdicts[i] = verdict end
      if verdict == RECORDED or verdict == BROKEN then
        texts_n = texts_n + 1
        texts = texts or {}
        texts[texts_n] = known or why
      end
      at = at + width
    end
    if entries == 0 then break end
    untaken, untaken_why, fault = append(log_key, e.epoch, bucket, lines, entries, stamp)
    if fault then return fault end
  until untaken == OK
  if counting then
    fault = counts.flush()
    if fault then return fault end
  end
  if entries > 0 then
    fault = save(balance_key, 'deducted', bucket.deducted, start - balance, 'balance', text_of(balance),
      'seq', text_of(bucket.seq), 'chain', bucket.chain)
    if fault then return fault end
  end
  if newer then
    local done = command('HSET', balance_key, 'limits', text_of(e.version))
    if type(done) == 'table' then return failed(done.err) end
    written = true
  end
  if kept_n > 0 then
    fault = keep.remember(balance_key, k + 2, kept, kept_n)
    if fault then return fault end
  end
  if not verdicts then head = head .. repeated('\1', operations) end
  for first = 1, verdicts and operations or 0, MOST_VALUES do
    head = head .. string.char(unpack(verdicts, first, min(operations, first + MOST_VALUES - 1)))
  end
  answered = answered + 1
  reply[answered] = counting and head .. counts.told() or head
  for i = 1, texts_n do reply[answered + i] = texts[i] end
  answered, k = answered + texts_n, k + KEYS_OF[mode]
end
return reply
