-- doubt.lua says that records from before an instant may be missing (bucket.Memories.Doubt).
--
-- KEYS[1] marker: see shared.lua    ARGV[4] the instant (ms)
-- Returns 1. It sets since_ms unless that is later, so repeating it changes nothing.
local m, wrong = memory(1, 4)
if not m then return wrong end
local since_ms = number(ARGV[4])
if not since_ms then return redis.error_reply('ARGUMENTS of doubt') end
if since_ms > m.since_ms then call('HSET', KEYS[1], 'since_ms', ARGV[4]) end
return 1
