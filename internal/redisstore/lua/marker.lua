-- marker.lua reads the marker of a partition (bucket.Memories.Marker). It changes nothing.
--
-- KEYS[1] marker, a hash: see shared.lua
-- Returns installation, incarnation, since, since_ms: texts, '' if missing.
if #KEYS ~= 1 or #ARGV ~= 0 then return redis.error_reply('ARGUMENTS of marker') end
local m = redis.pcall('HMGET', KEYS[1], 'installation', 'incarnation', 'since', 'since_ms')
if m.err then return {'', '', '', ''} end
return {m[1] or '', m[2] or '', m[3] or '', m[4] or ''}
