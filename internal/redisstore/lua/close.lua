-- close.lua ends epochs: the balance is remembered in a close entry and set to 0.
--
-- KEYS  per epoch: balance hash, log stream
-- ARGV  per epoch: epoch (decimal, 1 … 2^53 - 1), activation (decimal, same range), entry format
--       and kind (the first two bytes of ledger.Line)
-- Returns three elements per epoch: verdict, balance in minor units (0; or why, for BROKEN), seq of
-- the close entry. Errors: NOTDONE, HALFDONE (shared.lua).
--
-- Atomic because nothing may be deducted between reading the balance into the entry and zeroing it.
-- Idempotent by the state: a closed epoch answers ALREADY with its close entry's seq.
-- Keeps the store's part of I1: what the entry says is granted - deducted, and no longer there.

-- What is left in a memory that lacks deductions would go back to the total (I1).
local fault = malformed(false, 0) or another_memory()
if fault then return fault end

local reply, n = {}, 0
for k = 1, #KEYS, 2 do
  local balance_key, log_key = KEYS[k], KEYS[k + 1]
  local a = (k - 1) / 2 * 3
  local epoch, activation, head = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  local bucket, why
  bucket, fault = load(balance_key)
  if fault then return fault end
  local verdict = standing(bucket, activation)
  if verdict == EPOCH_CLOSED then
    verdict = ALREADY
  elseif verdict == BROKEN then
    why = bucket.broken
  elseif not verdict then
    verdict, why, fault = append(log_key, epoch, bucket,
      {'e', head .. text_of(bucket.balance) .. '|' .. text_of(bucket.grant_seq)}, 1, '')
    if fault then return fault end
    if verdict == OK then
      bucket.balance = 0
      fault = save(balance_key, 'deducted', bucket.deducted, 0, 'state', 'closed', 'balance', '0',
        'seq', text_of(bucket.seq), 'chain', bucket.chain)
      if fault then return fault end
    end
  end
  local told = verdict == OK or verdict == ALREADY
  reply[n + 1] = verdict
  reply[n + 2], reply[n + 3] = why or (told and bucket.balance) or 0, told and bucket.seq or 0
  n = n + 3
end
return reply
