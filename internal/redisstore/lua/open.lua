-- open.lua creates the balance hash and entry 0 of new epochs.
--
-- KEYS  per epoch: balance hash, log stream
-- ARGV  per epoch: epoch (decimal, 1 … 2^53 - 1), activation (decimal, same range),
--       entry 0 as chained (ledger.OpenLine)
-- Returns three elements per epoch: verdict, balance in minor units (or why, for BROKEN; or the last id
--       of a log that ends beyond the epoch, for EPOCH_GONE), last seq.
-- Errors: NOTDONE, HALFDONE (shared.lua).
--
-- Atomic because creating the hash decides, with the append, that this life begins: a hash without
-- entry 0 could be opened twice. Idempotent by the hash, and when that is forgotten by the log,
-- which refuses entry 0 once it holds this epoch or a later one. Nothing else creates a hash. A log
-- that is not a stream is replaced when there is no hash either: its epochs have ended in SQL.
-- Keeps the store's part of I1: balance = granted - deducted = 0.

local fault = malformed(false, 0)
if fault then return fault end

local reply, n = {}, 0
for k = 1, #KEYS, 2 do
  local balance_key, log_key = KEYS[k], KEYS[k + 1]
  local a = (k - 1) / 2 * 3
  local epoch, activation, line = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  local bucket, verdict, why, last
  bucket, fault = load(balance_key)
  if fault then return fault end
  local balance, seq = 0, 0
  if bucket.broken then
    verdict, why = BROKEN, bucket.broken
  elseif bucket.closed then
    verdict, balance, seq = EPOCH_CLOSED, bucket.balance, bucket.seq
  elseif activation ~= lane_activation then
    verdict = WRONG_ACTIVATION
  elseif not bucket.missing and bucket.activation ~= activation then
    verdict, balance, seq = EPOCH_CLOSED, bucket.balance, bucket.seq
  elseif not bucket.missing then
    verdict, balance, seq = ALREADY, bucket.balance, bucket.seq
  else
    bucket = {seq = -1, chain = ''}
    verdict, why, fault, last = append(log_key, epoch, bucket, {'e', line}, 1, '')
    if why == NOT_A_STREAM then
      -- It holds nothing of a log, and SQL has ended every life it could belong to: left there,
      -- this bucket could never be opened again. A server that refuses writes has said so before.
      local done = redis.pcall('DEL', log_key)
      if type(done) == 'table' then return failed(done.err) end
      written = true
      verdict, why, fault, last = append(log_key, epoch, bucket, {'e', line}, 1, '')
    end
    if fault then return fault end
    if verdict == OK then
      fault = save(balance_key, 'granted', '0', 0, 'state', 'open', 'activation', activation,
        'balance', '0', 'seq', '0', 'grant_seq', '0', 'granted', '0', 'deducted', '0',
        'chain', bucket.chain)
      if fault then return fault end
    end
  end
  reply[n + 1], reply[n + 2], reply[n + 3] = verdict, why or last or balance, seq
  n = n + 3
end
return reply
