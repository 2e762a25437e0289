-- unload.lua makes counters of limits unknown, because the ledger has given some of them back: whoever counts
-- for them next loads them from there.
--
-- KEYS  per order: root of the counters (limits.lua)
-- ARGV  per order (binary): by how much the clock is ahead of SQL's in ms (8 bytes, signed), the limits as in deduct.lua,
--       how many counts (1 byte), and the counts (counts.parse)
-- Returns how many orders there were. Errors: NOTDONE, HALFDONE (shared.lua).
--
-- Atomic because nobody may count between the look-up of the page and the mark. Idempotent in effect: a counter
-- that is unknown twice is loaded once, by its latest mark, so that what was read from the ledger before is
-- refused. Keys that are not what they must be are left to the next deduction. Keeps I5: what a limit counts is
-- what the ledger kept.

local orders = {}

-- parse reads the arguments. Raises an error unless they are what the header says.
local function parse()
  assert(#KEYS > 0 and #ARGV == #KEYS)
  for k = 1, #KEYS do
    local text, o, at = ARGV[k], {}, nil
    o.ahead, at = unpack_text('>i8', text)
    o.limits, at = counts.parse_limits(text, at, nil)
    o.n, at = unpack_text('B', text, at)
    at = counts.parse(o, text, at, o.n)
    assert(at == #text + 1)
    orders[k] = o
  end
end

if not pcall(parse) then return failed('ARGUMENTS are not what the script expects') end

local time = command('TIME')
if time.err then return failed(time.err) end
local now = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
for k, o in ipairs(orders) do
  local fault = counts.prepare(KEYS[k], o, now) or counts.unload(o.n)
  if fault then return fault end
end
return #KEYS
