-- shared.lua: what all scripts of this folder use. It is put in front of each of them; before it
-- stand a line with the activation, `local lane_activation = '<number>'` and
-- `local lane_replid = '<the replication id that the lane was activated with>'`.
--
-- How an operation on one bucket fails alone: everything that can fail because of what a key holds
-- goes through redis.pcall or is checked here, and becomes that operation's BROKEN.
-- How a call fails: a server that refuses to write (OOM, MISCONF, READONLY, NOREPLICAS, NOPERM)
-- says so at the first write of a script and never later; what the scripts write first is an entry
-- (XADD), so nothing has been written then. The reply is the error `NOTDONE <code> <text>`. If the
-- server nevertheless refuses after a write, it is `HALFDONE <code> <text>`.
-- Numbers: quantities are 0 … 2^53 - 1, which a Lua number holds exactly; sums may be larger, and are
-- HINCRBYed then. No Lua number is written but by text_of.

-- Verdicts, as in bucket.Verdict.
local OK, ALREADY, INSUFFICIENT, EPOCH_CLOSED, EPOCH_GONE = 1, 2, 3, 4, 5
local WRONG_ACTIVATION, WENT_BACK, GAP, BROKEN = 6, 7, 8, 9
local RECORDED, BEHIND, PERIOD_OVER, OUTDATED, UNLOADED, OVER_LIMIT = 10, 11, 12, 13, 14, 15

local MAX_AMOUNT = 9007199254740991
-- A number of fewer digits is below it.
local MAX_DIGITS = 17
-- A sum of this many digits is refused, so that HINCRBY (int64) cannot fail after the append.
local MAX_SUM_DIGITS = 18

-- How many entries of a log one of the stream holds at most; maxTogether of log.go.
local MOST_TOGETHER = 128

local NOT_A_STREAM = 'the log is not a stream'

-- What is called often: a local name is found faster than a global one and a field.
local command, sha1hex = redis.pcall, redis.sha1hex
local find, match, sub, format = string.find, string.match, string.sub, string.format
local floor, min, max = math.floor, math.min, math.max
local tonumber, type, unpack = tonumber, type, unpack
local unpack_text, repeated = struct.unpack, string.rep

-- Whether this call has changed anything.
local written = false

local function text_of(number)
  return format('%d', number)
end

-- is_whole says whether a text is a decimal number without sign or leading zeros.
local function is_whole(text)
  return text == '0' or (text and find(text, '^[1-9]%d*$') ~= nil)
end

-- quantity returns the number a text stands for, nil if it is not 0 … MAX_AMOUNT.
local function quantity(text)
  if text == '0' then return 0 end
  if text and find(text, '^[1-9]%d*$') and #text <= 16 then
    local number = tonumber(text)
    if number <= MAX_AMOUNT then return number end
  end
  return nil
end

-- How many values unpack_text puts on Lua's stack at once, which has room for 8,000.
local MOST_VALUES = 4000

-- rows reads n rows of `width` values each from a text, at a place. Returns a list of the values (what follows the last
-- row in it is none) and the place after. Raises an error if they are not there.
local function rows(row, width, n, text, at)
  local most = floor(MOST_VALUES / width)
  if n <= most then
    local list = {unpack_text(repeated(row, n), text, at)}
    return list, list[n * width + 1]
  end
  local list, k = {}, 0
  while n > 0 do
    local now = min(n, most)
    local piece = {unpack_text(repeated(row, now), text, at)}
    local values = now * width
    for i = 1, values do list[k + i] = piece[i] end
    k, n, at = k + values, n - now, piece[values + 1]
  end
  return list, at
end

-- failed returns the reply of a call that cannot go on.
local function failed(text)
  local code = match(text, '%u%u%u+') or 'ERR'
  -- Redis 7 says it without the word.
  if find(text, 'The user executing the script', 1, true) then code = 'NOPERM' end
  return redis.error_reply((written and 'HALFDONE ' or 'NOTDONE ') .. code .. ' ' .. text)
end

-- another_memory returns a reply unless the server's data is still the history that the lane was
-- activated with: a connection may outlive a fail-over (to a replica that knows the scripts, there
-- and back, behind a proxy) and not notice. In ledger mode SQL notices; in store mode nobody else does.
local function another_memory()
  local info = command('INFO', 'replication')
  if type(info) == 'table' then return failed(info.err) end
  if not find(info, 'master_replid:' .. lane_replid .. '\r\n', 1, true) then
    return failed('REPLACED the data has another replication id than the lane was activated with')
  end
  return nil
end

local function is_wrong_type(err)
  return find(err, 'WRONGTYPE', 1, true) ~= nil
end

-- malformed returns a reply unless the arguments are what the script's header says: two keys per
-- group, headers of three arguments per group (the third is the number of its operations, nil
-- stands for 1), then `width` arguments per operation.
local function malformed(counted, width)
  local groups = #KEYS / 2
  local expected = 3 * groups
  for g = 1, groups do
    expected = expected + width * (counted and (tonumber(ARGV[3 * g]) or 0) or 0)
  end
  if #KEYS == 0 or #KEYS % 2 ~= 0 or #ARGV ~= expected then
    return failed('ARGUMENTS are not what the script expects')
  end
  return nil
end

-- load reads a balance hash, with the slice of its records or without. Returns the bucket, or nil and the reply of the
-- failed call. A bucket has .broken (why) or .missing set, or its fields, but two that few want: they are the third and
-- the fourth value, the sum of grants (a text) and the slice (as it is, see records.lua).
local function load(key, sliced)
  local f
  if sliced then
    f = command('HMGET', key, 'state', 'activation', 'balance', 'seq', 'grant_seq', 'granted', 'deducted', 'chain',
      'limits', 'slice')
  else
    f = command('HMGET', key, 'state', 'activation', 'balance', 'seq', 'grant_seq', 'granted', 'deducted', 'chain',
      'limits')
  end
  if f.err then
    if is_wrong_type(f.err) then return {broken = 'the balance is not a hash'} end
    return nil, failed(f.err)
  end
  local state, activation, granted, deducted, chain = f[1], f[2], f[6], f[7], f[8]
  if not (state or activation or f[3] or f[4] or f[5] or granted or deducted or chain) then
    return {missing = true}
  end
  local balance, seq, grant_seq = quantity(f[3]), quantity(f[4]), quantity(f[5])
  local limits = quantity(f[9] or '0')
  local broken
  if state ~= 'open' and state ~= 'closed' then broken = 'state'
  elseif not is_whole(activation) then broken = 'activation'
  elseif not balance then broken = 'balance'
  elseif not seq then broken = 'seq'
  elseif not grant_seq then broken = 'grant_seq'
  elseif not (is_whole(granted) and #granted <= MAX_SUM_DIGITS) then broken = 'granted'
  elseif not (is_whole(deducted) and #deducted <= MAX_SUM_DIGITS) then broken = 'deducted'
  elseif not (chain and #chain == 16) then broken = 'chain'
  elseif not limits then broken = 'limits'
  end
  if broken then
    return {broken = 'field ' .. broken .. ' of the balance is not what it must be'}
  end
  return {closed = state == 'closed', activation = activation, balance = balance, seq = seq,
    grant_seq = grant_seq, deducted = deducted, chain = chain, limits = limits}, nil, granted, f[10]
end

-- standing returns the verdict that a bucket gives to every operation of an activation, nil when
-- it is for the operation to decide. A closed bucket gives EPOCH_CLOSED.
local function standing(bucket, activation)
  if bucket.broken then return BROKEN end
  if bucket.missing then return EPOCH_GONE end
  if bucket.activation ~= activation or activation ~= lane_activation then
    return WRONG_ACTIVATION
  end
  if bucket.closed then return EPOCH_CLOSED end
  return nil
end

-- append writes the bucket's next entries, n of them, given as a list of 'e', line, 'e', line …, which is used up, and
-- what ends all lines; and moves its seq and chain. Up to MOST_TOGETHER are one entry of the stream, a field each, under
-- the id of the last. Returns OK; or EPOCH_GONE when the log holds a later epoch (the fourth value is then its last id)
-- or, for entry 0, this one; or BROKEN and why; or nil, nil and the reply of the failed call. Only OK has written and
-- moved anything.
local function append(key, epoch, bucket, lines, n, ending)
  local seq, chain, done = bucket.seq, bucket.chain, false
  if n > 1 then
    -- The first id is not that of the next entry, so XADD does not notice a log that is ahead of it.
    done = command('XRANGE', key, format('(%s-%d', epoch, seq), '+', 'COUNT', 1)
    if #done == 0 and not done.err then done = false end
  end
  for first = 1, done and 0 or n, MOST_TOGETHER do
    local last = min(n, first + MOST_TOGETHER - 1)
    for k = 2 * first, 2 * last, 2 do
      local line = lines[k]
      chain = sub(sha1hex(chain .. line .. ending), 1, 16)
      lines[k] = chain .. line .. ending
    end
    done = command('XADD', key, format('%s-%d', epoch, seq + last), unpack(lines, 2 * first - 1, 2 * last))
    if type(done) == 'table' then
      if first > 1 then return nil, nil, failed(done.err) end
      break
    end
    written = true
  end
  if type(done) ~= 'table' then
    bucket.seq, bucket.chain = seq + n, chain
    return OK
  end
  if done.err and is_wrong_type(done.err) then return BROKEN, NOT_A_STREAM end
  local info = command('XINFO', 'STREAM', key)
  if info.err then return nil, nil, failed(done.err or info.err) end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      local last_epoch, last_seq = match(info[i + 1], '^(%d+)%-(%d+)$')
      last_epoch, last_seq = tonumber(last_epoch), tonumber(last_seq)
      local this = tonumber(epoch)
      if last_epoch > this then return EPOCH_GONE, nil, nil, info[i + 1] end
      if last_epoch == this and seq == -1 then return EPOCH_GONE end
      if last_epoch == this and last_seq > seq then
        return BROKEN, 'the log is ahead of the balance'
      end
    end
  end
  return nil, nil, failed(done.err or 'ERR the log is ahead of itself')
end

-- save writes fields of a balance hash and adds to one of its sums, which was `before` (a text).
-- Returns nil, or the reply of a call that is half done.
local function save(key, sum, before, units, ...)
  local after = units > 0 and #before < MAX_DIGITS and tonumber(before) + units
  local done
  if after and after <= MAX_AMOUNT then
    done = command('HSET', key, sum, text_of(after), ...)
  else
    done = command('HSET', key, ...)
    if type(done) ~= 'table' and units > 0 then done = command('HINCRBY', key, sum, text_of(units)) end
  end
  if type(done) == 'table' then return failed(done.err) end
  return nil
end
