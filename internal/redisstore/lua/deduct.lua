-- deduct.lua takes amounts from balances and appends an entry for each.
--
-- KEYS  per epoch: balance hash, log stream
-- ARGV  per epoch: epoch (decimal, 1 … 2^53 - 1), activation (decimal, same range), how many
--       operations
--       then per operation, in the order of the epochs: the highest seq the caller knows (decimal,
--       0 … 2^53 - 1), amount in minor units (decimal, 1 … 2^53 - 1), the entry as chained
--       (ledger.Line; binary)
-- Returns three elements per operation: verdict, balance in minor units (or why, for BROKEN), last
-- seq. Errors: NOTDONE, HALFDONE (shared.lua).
--
-- Atomic because the comparison with the balance and the subtraction decide together that no unit
-- is used twice (I2). Not idempotent: a repeated operation is admitted again, and the ledger, whose
-- primary key is the request id, counts it as a duplicate and returns its units (I4).
-- A refusal writes nothing (I6). Keeps the store's part of I1: balance = granted - deducted.

local fault = malformed(true, 3)
if fault then return fault end

local reply, n = {}, 0
local at = #KEYS / 2 * 3
for k = 1, #KEYS, 2 do
  local balance_key, log_key = KEYS[k], KEYS[k + 1]
  local a = (k - 1) / 2 * 3
  local epoch, activation, operations = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3])
  local bucket
  bucket, fault = load(balance_key)
  if fault then return fault end
  local stands = standing(bucket, activation)
  local taken = 0
  for _ = 1, operations do
    local least, amount, line = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), ARGV[at + 3]
    at = at + 3
    local verdict, why = stands, bucket.broken
    if not verdict then
      if bucket.seq < least then
        verdict = WENT_BACK
      elseif bucket.balance < amount then
        verdict = INSUFFICIENT
      else
        verdict, why, fault = append(log_key, epoch, bucket, line)
        if verdict == OK then
          bucket.balance = bucket.balance - amount
          taken = taken + amount
        end
      end
    end
    if fault then break end
    local told = verdict < EPOCH_GONE or verdict == WENT_BACK
    reply[n + 1] = verdict
    reply[n + 2], reply[n + 3] = why or (told and bucket.balance) or 0, told and bucket.seq or 0
    n = n + 3
  end
  if taken > 0 then
    fault = save(balance_key, 'deducted', taken, 'balance', text_of(bucket.balance),
      'seq', text_of(bucket.seq), 'chain', bucket.chain) or fault
  end
  if fault then return fault end
end
return reply
