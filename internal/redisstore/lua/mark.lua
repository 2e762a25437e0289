-- mark.lua writes the marker of an incarnation (bucket.Memories.Mark).
--
-- KEYS[1] the marker, a hash: see shared.lua
-- ARGV[1] installation id   ARGV[2] incarnation, 1 … 2^53-1   ARGV[3] replication id   ARGV[4] since
-- Returns 1. It writes the marker unless there is a larger one; repeating it changes nothing. It returns
-- OTHERMEMORY if there is a larger marker, if the replication id differs, or if `since` is below the
-- incarnation and there is no marker with that `since` or less.
if #KEYS ~= 1 or #ARGV ~= 4 then return redis.error_reply('ARGUMENTS of mark') end
local call, tonumber = redis.call, tonumber
local other = redis.error_reply('OTHERMEMORY another marker or replication id is there')
local info = call('INFO', 'replication')
if not string.find(info, 'master_replid:' .. ARGV[3], 1, true) then return other end
local kind = call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'hash' then call('UNLINK', KEYS[1]) end
local m = call('HMGET', KEYS[1], 'installation', 'incarnation', 'since_ms', 'slice', 'since')
local was, incarnation, since = tonumber(m[2] or '0'), tonumber(ARGV[2]), tonumber(ARGV[4])
local known = was and m[1] == ARGV[1] and tonumber(m[3] or '') and tonumber(m[4] or '')
if was and was > incarnation then return other end
if known and was == incarnation then return 1 end
if since < incarnation and not (known and tonumber(m[5] or '') and tonumber(m[5]) <= since) then return other end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
call('HSET', KEYS[1], 'installation', ARGV[1], 'incarnation', ARGV[2])
if since == incarnation then -- before a partition's first memory nothing can have been lost
  call('HSET', KEYS[1], 'since', ARGV[4], 'since_ms', since == 1 and 0 or now)
end
-- A slice is at least a second long, so the time in seconds is above the number of any earlier slice.
if not known then call('HSET', KEYS[1], 'slice', t[1], 'slice_ms', now) end
return 1
