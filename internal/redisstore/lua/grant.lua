-- grant.lua adds numbered grants to balances and appends an entry for each.
--
-- KEYS  per epoch: balance hash, log stream
-- ARGV  per epoch: epoch (decimal, 1 … 2^53 - 1), activation (decimal, same range), how many orders
--       then per order, in the order of the epochs: number (decimal, 1 … 2^53 - 1), amount in minor
--       units (decimal, 1 … 2^53 - 1), the entry as chained (ledger.Line)
-- Returns three elements per order: verdict, balance in minor units (or why, for BROKEN), last seq.
-- Errors: NOTDONE, HALFDONE (shared.lua).
--
-- Atomic because the comparison with grant_seq and the addition decide together that a grant is
-- added once. Idempotent by the number: <= grant_seq has arrived, > grant_seq + 1 has to wait.
-- Keeps the store's part of I1: balance = granted - deducted.

local fault = malformed(true, 3)
if fault then return fault end

local reply, n = {}, 0
local at = #KEYS / 2 * 3
for k = 1, #KEYS, 2 do
  local balance_key, log_key = KEYS[k], KEYS[k + 1]
  local a = (k - 1) / 2 * 3
  local epoch, activation, orders = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3])
  local bucket, granted
  bucket, fault, granted = load(balance_key)
  if fault then return fault end
  local stands = standing(bucket, activation)
  local added = 0
  for _ = 1, orders do
    local number, amount, line = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), ARGV[at + 3]
    at = at + 3
    local verdict, why = stands, bucket.broken
    if not verdict then
      if number <= bucket.grant_seq then
        verdict = ALREADY
      elseif number > bucket.grant_seq + 1 then
        verdict = GAP
      elseif amount > MAX_AMOUNT - bucket.balance then
        verdict, why = BROKEN, 'the balance would exceed the largest amount'
      else
        verdict, why, fault = append(log_key, epoch, bucket, {'e', line}, 1, '')
        if verdict == OK then
          bucket.balance, bucket.grant_seq = bucket.balance + amount, number
          added = added + amount
        end
      end
    end
    if fault then break end
    local told = verdict < EPOCH_GONE or verdict == WENT_BACK or verdict == GAP
    reply[n + 1] = verdict
    reply[n + 2], reply[n + 3] = why or (told and bucket.balance) or 0, told and bucket.seq or 0
    n = n + 3
  end
  if added > 0 then
    fault = save(balance_key, 'granted', granted, added, 'balance', text_of(bucket.balance),
      'seq', text_of(bucket.seq), 'grant_seq', text_of(bucket.grant_seq),
      'chain', bucket.chain) or fault
  end
  if fault then return fault end
end
return reply
