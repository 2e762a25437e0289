-- shared.lua is the common beginning of all scripts.
--
-- Every script begins with KEYS[1], the partition's marker, a hash: installation, incarnation, since (the first
-- incarnation since which this memory was kept without a gap), since_ms (when that began, or later: doubt.lua; 0 for
-- the partition's first incarnation), slice (number of the present time slice of the records), slice_ms (when that began).
-- ARGV[1] is the installation id, ARGV[2] the incarnation and ARGV[3] the replication id, as the caller verified
-- them. If one of them differs, nothing is done.
--
-- Scripts read all keys before they write any, so that a key of another type fails the call before it has
-- changed anything. The first write is to the set of changes, which is harmless on its own.
local call, unpackm, packm = redis.call, cmsgpack.unpack, cmsgpack.pack
local sunpack, spack = struct.unpack, struct.pack
local find, match, sub, rep, floor = string.find, string.match, string.sub, string.rep, math.floor
local tonumber, unpack = tonumber, unpack
local MAX = 9007199254740991

-- The verdicts of package bucket.
local ACCEPTED, KNOWN, SHORT, OVER, OUTDATED, LIMITED = 1, 2, 3, 5, 6, 7
local LOST, BROKEN, CLOSED, MOVING, TOO_OLD, WINDOW_OVER = 32, 33, 34, 35, 36, 37
local NOT_FOUND, UNCLEAR, TOO_MUCH, TOO_MANY, GAP, VOIDED = 38, 39, 40, 41, 42, 43

-- number parses a text of digits. It returns nil for any other text and for a number above 2^53 - 1.
local function number(text)
  if not text or #text > 16 or find(text, '^%d+$') == nil then return nil end
  local n = tonumber(text)
  if n <= MAX then return n end
  return nil
end

-- epoch_of parses the text of an epoch (entries.lua) to its number and its state. It returns nil for any
-- other text.
local function epoch_of(text)
  local epoch, state = match(text, '^(%d+)$'), ''
  if not epoch then epoch, state = match(text, '^(%d+) (%l.*)$') end
  return number(epoch), state
end

-- memory returns the marker {slice, since, since_ms}, or nil and an error reply.
local function memory(keys, args)
  if #KEYS < keys or #ARGV ~= args then
    return nil, redis.error_reply('ARGUMENTS are not what the script expects')
  end
  local m = redis.pcall('HMGET', KEYS[1], 'installation', 'incarnation', 'slice', 'since', 'since_ms')
  if m.err or m[1] ~= ARGV[1] or m[2] ~= ARGV[2] or not number(m[3]) or not number(m[4]) or
    not number(m[5]) or not find(call('INFO', 'replication'), 'master_replid:' .. ARGV[3], 1, true) then
    return nil, redis.error_reply('OTHERMEMORY the marker or the replication id is another')
  end
  return {slice = m[3], since = tonumber(m[4]), since_ms = tonumber(m[5])}
end

-- other_slice returns the reply to a caller that passed the keys of another slice of the records.
local function other_slice(m)
  return redis.error_reply('TOLD ' .. m.slice)
end

-- clock returns the server's time in milliseconds.
local function clock()
  local t = call('TIME')
  return t[1] * 1000 + floor(t[2] / 1000)
end
