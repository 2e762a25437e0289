-- The database of budgetd: every table and column, in the common subset of MySQL 8.0.16,
-- MariaDB 10.6 and SQLite 3.40. budgetd runs this in an empty database as migration 1; later
-- migrations stand in internal/sqlstore/migrations and are folded in here.
--
-- Conventions
--   quantities   BIGINT, minor units (counted pieces, or the smallest coin), 0 … 2^53 - 1
--   *_ms         BIGINT, milliseconds since 1970-01-01T00:00Z; 0: none
--   texts        VARBINARY or BLOB, bound as bytes: compared byte by byte in every engine. Under
--                MariaDB's default collation `order-A`, `order-a` and `order-a ` would be one key;
--                in SQLite a text bound to VARBINARY would become the number 7 for `007`.
--   words        statuses, kinds, types and reasons of budgetd itself: lower-case letters, written
--                as text, because SQLite never finds bytes equal to a text literal
--   ids          handed out by budgetd from `sequence`; no AUTO_INCREMENT
--   lock order   budget, epoch, deduction, limit row; within each by primary key
--   T U Q X O H S R  the letters of the accounting: see docs/INVARIANTS.md
-- Real differences between the engines are mended in internal/sqlstore/dialect.go and nowhere else.

-- Numbers that budgetd hands out.
CREATE TABLE sequence (
  name VARBINARY(32) NOT NULL,              -- budget, bucket
  next_id BIGINT NOT NULL,                  -- the next id to hand out, from 1
  PRIMARY KEY (name)
);

-- What is true of the whole database.
CREATE TABLE installation (
  only_row BIGINT NOT NULL,                 -- always 1
  installation_id VARBINARY(32) NOT NULL,   -- made with the database; part of every key in a store
  ring_version BIGINT NOT NULL,             -- format of the ring's hash and labels
  created_ms BIGINT NOT NULL,               -- when the database was made
  PRIMARY KEY (only_row),
  CHECK (only_row = 1)
);

-- A budget (total bucket): the total and what has not been handed out.
CREATE TABLE budget_management_bucket (
  id BIGINT NOT NULL,                       -- number of the budget, from `sequence`
  parent_id BIGINT NOT NULL DEFAULT 0,      -- the budget whose period this is; 0: a budget of its own
  tenant VARBINARY(63) NOT NULL,            -- business line; `default`
  name VARBINARY(63) NOT NULL,              -- unique within the tenant
  gl_code VARBINARY(128) NOT NULL,          -- ledger account; empty: none
  unit VARBINARY(8) NOT NULL,               -- count | amount
  durability VARBINARY(8) NOT NULL,         -- ledger | store: when "accepted" is said
  unlimited BIGINT NOT NULL DEFAULT 0,      -- 1: the total is 2^53 - 1 and answered as null
  total_quantity BIGINT NOT NULL,           -- T, units
  undistributed_quantity BIGINT NOT NULL,   -- U, units: what no bucket holds
  out_quantity BIGINT NOT NULL,             -- handed out, units: T - U - X
  quarantined_quantity BIGINT NOT NULL DEFAULT 0, -- Q, units of lost buckets in store mode
  forfeited_quantity BIGINT NOT NULL DEFAULT 0,   -- X, units of closed periods that expired
  pending_shrink_quantity BIGINT NOT NULL DEFAULT 0, -- units of shrinks that wait; apply may not take them
  sharding_quantity BIGINT NOT NULL,        -- the most one bucket may apply for at a time, units; 0: no bound
  bucket_quantity BIGINT NOT NULL,          -- number of buckets, 1 … 1,024
  adjust_cnt BIGINT NOT NULL,               -- how many times one bucket may apply; 0: no bound
  type VARBINARY(8) NOT NULL,               -- promo | daily
  type_rule BLOB,                           -- application rule, JSON; NULL: none
  status VARBINARY(8) NOT NULL,             -- active | paused; pending, effective, expired follow from the clock
  start_ms BIGINT NOT NULL,                 -- first instant at which units can be deducted
  end_ms BIGINT NOT NULL,                   -- first instant at which they no longer can
  timezone VARBINARY(64) NOT NULL DEFAULT 'UTC', -- IANA zone of periods
  routing_dimension VARBINARY(256),         -- dimension whose value picks the bucket; NULL: the key
  late_refund VARBINARY(8),                 -- where refunds of closed periods go; NULL: back to U
  created_as BLOB NOT NULL,                 -- the definition it was created with, canonical JSON
  version BIGINT NOT NULL,                  -- grows with each change of the definition
  list_version BIGINT NOT NULL,             -- grows with each change of the bucket list
  limits_version BIGINT NOT NULL DEFAULT 0, -- grows with each change of the limits
  next_run BIGINT NOT NULL DEFAULT 1,       -- number of the next row in run
  created_at BIGINT NOT NULL,               -- ms since 1970
  updated_at BIGINT NOT NULL,               -- ms since 1970, of the last change of the definition
  has_undistributed BIGINT GENERATED ALWAYS AS (CASE WHEN undistributed_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: there are units to hand out
  PRIMARY KEY (id),
  UNIQUE (tenant, name),
  CHECK (total_quantity >= 0 AND total_quantity <= 9007199254740991),
  CHECK (undistributed_quantity >= 0),
  CHECK (quarantined_quantity >= 0 AND forfeited_quantity >= 0 AND pending_shrink_quantity >= 0),
  CHECK (out_quantity = total_quantity - undistributed_quantity - forfeited_quantity)
);
CREATE INDEX budget_management_bucket_units ON budget_management_bucket (has_undistributed);

-- A bucket: one shard of a budget.
CREATE TABLE sharding_budget_management_bucket (
  id BIGINT NOT NULL,                       -- number of the bucket, from `sequence`
  budget_id BIGINT NOT NULL,                -- the budget
  ordinal BIGINT NOT NULL,                  -- 0 … bucket_quantity - 1: the ring's node
  sharding_bucket_key VARBINARY(128) NOT NULL, -- `<budget name>:bucket-<ordinal>`
  instance VARBINARY(63) NOT NULL,          -- the instance it lives in, as configured
  lane BIGINT NOT NULL,                     -- the lane of that instance, from 0
  out_quantity BIGINT NOT NULL,             -- total ever applied for, units
  sharding_quantity BIGINT NOT NULL,        -- units of its latest grant
  out_cnt BIGINT NOT NULL,                  -- number of applications since it was last recycled
  status VARBINARY(8) NOT NULL,             -- online | offline
  offline_by VARBINARY(8) NOT NULL,         -- operator | service; empty while online
  epoch BIGINT NOT NULL,                    -- number of its newest epoch: no other may be live
  is_idle BIGINT NOT NULL DEFAULT 0,        -- 1: online, and its newest epoch has ended: it needs another
  created_at BIGINT NOT NULL,               -- ms since 1970
  updated_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (id),
  UNIQUE (budget_id, ordinal)
);
CREATE INDEX sharding_budget_management_bucket_lane ON sharding_budget_management_bucket (instance, lane, id);
CREATE INDEX sharding_budget_management_bucket_idle ON sharding_budget_management_bucket (is_idle);

-- One life of a bucket between coming online and going offline. Its row lock is the per-bucket
-- global lock.
CREATE TABLE bucket_epoch (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- from 1; only grows
  budget_id BIGINT NOT NULL,                -- the budget
  status VARBINARY(8) NOT NULL,             -- opening | open | closing | closed | lost
  activation BIGINT NOT NULL,               -- the lane's activation under which it was opened
  outstanding_quantity BIGINT NOT NULL,     -- O, units granted and not yet in the ledger
  held_quantity BIGINT NOT NULL,            -- H, units of holds
  used_quantity BIGINT NOT NULL,            -- S, units of deductions
  returning_quantity BIGINT NOT NULL,       -- R, units on their way back to the total
  closed_quantity BIGINT NOT NULL,          -- units that the end of the epoch moved out of O
  swept_quantity BIGINT NOT NULL,           -- units that were ever moved out of R
  next_grant BIGINT NOT NULL,               -- number of the next grant, from 1
  next_entry BIGINT NOT NULL,               -- number of the bucket's next ledger row, from 1
  drained_seq BIGINT NOT NULL,              -- last log position that is in the ledger
  drained_chain VARBINARY(16) NOT NULL,     -- that entry's chain value
  period_end_ms BIGINT NOT NULL,            -- commits of entries at or after this instant return them; 0: none
  limits_version BIGINT NOT NULL DEFAULT 0, -- limits by which commits of this epoch are judged
  fenced VARBINARY(512) NOT NULL,           -- why nothing may move on it; empty: it may
  has_units BIGINT GENERATED ALWAYS AS (CASE WHEN outstanding_quantity + returning_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: counts in the sum of what is left
  has_returns BIGINT GENERATED ALWAYS AS (CASE WHEN returning_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: a sweep moves units to the total
  is_unfinished BIGINT GENERATED ALWAYS AS (CASE WHEN status = 'opening' OR status = 'closing' OR status = 'open' AND LENGTH(fenced) > 0 THEN 1 ELSE 0 END) STORED, -- 1: somebody has to go on with it
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (bucket_id, epoch),
  CHECK (outstanding_quantity >= 0 AND held_quantity >= 0 AND used_quantity >= 0),
  CHECK (returning_quantity >= 0 AND closed_quantity >= 0 AND swept_quantity >= 0)
);
CREATE INDEX bucket_epoch_units ON bucket_epoch (budget_id, has_units);
CREATE INDEX bucket_epoch_returns ON bucket_epoch (has_returns, budget_id);
CREATE INDEX bucket_epoch_unfinished ON bucket_epoch (is_unfinished);

-- One numbered movement of units total -> bucket.
CREATE TABLE grant_log (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- the epoch that got the units
  number BIGINT NOT NULL,                   -- from 1, without gaps
  budget_id BIGINT NOT NULL,                -- the budget
  request_key VARBINARY(64) NOT NULL,       -- what asked for it: `<bucket>/<epoch>/<number>`, or a run
  amount BIGINT NOT NULL,                   -- units
  status VARBINARY(8) NOT NULL,             -- pending | applied (the log showed it) | void (its epoch ended before)
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (bucket_id, epoch, number),
  UNIQUE (request_key),
  CHECK (amount > 0)
);
CREATE INDEX grant_log_status ON grant_log (status);

-- Appends and shrinks; the creation of a budget is its first.
CREATE TABLE adjustment (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- the caller's; empty: the creation
  quantity BIGINT NOT NULL,                 -- units; negative: a shrink
  fingerprint VARBINARY(16) NOT NULL,       -- hash of the request with a format number
  status VARBINARY(8) NOT NULL,             -- pending | done | refused
  deadline_ms BIGINT NOT NULL,              -- when a pending shrink is refused
  created_at BIGINT NOT NULL,               -- ms since 1970
  updated_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, request_id)
);
CREATE INDEX adjustment_status ON adjustment (status);

-- The ledger: what became of each request id.
CREATE TABLE deduction (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- the caller's, byte by byte
  state VARBINARY(12) NOT NULL,             -- used | held | rolled_back | expired | void (a tombstone)
  amount BIGINT NOT NULL,                   -- units; 0 for a tombstone
  rolled_back BIGINT NOT NULL,              -- units given back since
  confirmed BIGINT NOT NULL DEFAULT 0,      -- units of a hold that were confirmed
  fingerprint VARBINARY(16) NOT NULL,       -- hash of the request with a format number; empty for a tombstone
  nonce VARBINARY(8) NOT NULL,              -- the call whose attempt was counted
  reference VARBINARY(256),                 -- the caller's note; NULL: none
  dimensions BLOB,                          -- canonical JSON; NULL: none
  hold_group VARBINARY(128),                -- holds confirmed together; NULL: none
  hold_until_ms BIGINT NOT NULL DEFAULT 0,  -- when a hold expires; 0: no hold
  bucket_id BIGINT,                         -- where it was deducted; NULL for a tombstone
  epoch BIGINT,                             -- its epoch; NULL for a tombstone
  seq BIGINT,                               -- position in that epoch's log
  entry BIGINT,                             -- number of this row in the bucket's part of the feed
  counted_at BIGINT NOT NULL,               -- SQL's time of the commit, ms since 1970
  PRIMARY KEY (budget_id, request_id),
  UNIQUE (bucket_id, epoch, seq),
  CHECK (rolled_back >= 0 AND confirmed >= 0 AND rolled_back <= amount)
);

-- Units of a deduction given back.
CREATE TABLE rollback_log (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- of the deduction
  rollback_id VARBINARY(128) NOT NULL,      -- the caller's; empty: the whole
  amount BIGINT NOT NULL,                   -- units
  is_whole BIGINT NOT NULL,                 -- 1: asked for all that was left
  bucket_id BIGINT NOT NULL,                -- of the deduction
  epoch BIGINT NOT NULL,                    -- of the deduction
  entry BIGINT NOT NULL,                    -- number of this row in the bucket's part of the feed
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, request_id, rollback_id),
  CHECK (amount > 0)
);
CREATE INDEX rollback_log_epoch ON rollback_log (bucket_id, epoch);

-- Entries that a store admitted and the ledger did not count; their units went to R.
CREATE TABLE duplicate (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- its epoch
  seq BIGINT NOT NULL,                      -- position in that epoch's log
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- the caller's, byte by byte
  nonce VARBINARY(8) NOT NULL,              -- the call whose attempt it was
  amount BIGINT NOT NULL,                   -- units
  reason VARBINARY(16) NOT NULL,            -- duplicate | void | expired | a limit's refusal
  figures BLOB,                             -- what a refusal reports, JSON; NULL: nothing
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (bucket_id, epoch, seq)
);

-- Limits of a budget.
CREATE TABLE budget_limit (
  budget_id BIGINT NOT NULL,                -- the budget
  name VARBINARY(63) NOT NULL,              -- unique within the budget
  definition BLOB NOT NULL,                 -- JSON as the contract has it
  version BIGINT NOT NULL,                  -- limits_version of its last change
  PRIMARY KEY (budget_id, name)
);

-- One row per value of a limit: what committers lock.
CREATE TABLE limit_head (
  budget_id BIGINT NOT NULL,                -- the budget
  limit_name VARBINARY(63) NOT NULL,        -- the limit
  value VARBINARY(1024) NOT NULL,           -- value of the dimension, combined ones length-prefixed
  first_hit_ms BIGINT NOT NULL,             -- when a first-hit window began; 0: none
  version BIGINT NOT NULL,                  -- limits_version by which its counters were loaded
  PRIMARY KEY (budget_id, limit_name, value)
);

-- Counters of limits, one row per window or slot.
CREATE TABLE limit_counter (
  budget_id BIGINT NOT NULL,                -- the budget
  limit_name VARBINARY(63) NOT NULL,        -- the limit
  value VARBINARY(1024) NOT NULL,           -- value of the dimension, as in limit_head
  window_ms BIGINT NOT NULL,                -- when the window or slot began, ms since 1970; 0: lifetime
  counted BIGINT NOT NULL,                  -- calls or units, as the limit measures
  expires_ms BIGINT NOT NULL,               -- when the row may be removed; 0: never
  PRIMARY KEY (budget_id, limit_name, value, window_ms)
);

-- Lanes: which memory SQL has verified.
CREATE TABLE lane (
  instance VARBINARY(63) NOT NULL,          -- the instance, as configured
  lane BIGINT NOT NULL,                     -- number of the lane within it, from 0
  identity VARBINARY(512) NOT NULL,         -- who the store said it was
  activation BIGINT NOT NULL,               -- grows whenever that memory can no longer be taken for the one known
  last_reached_ms BIGINT NOT NULL DEFAULT 0, -- when any node last reached it, ms since 1970
  PRIMARY KEY (instance, lane)
);

-- Runs that bring fragments together, one per budget at a time; the open one has active = 1.
CREATE TABLE run (
  budget_id BIGINT NOT NULL,                -- the budget
  number BIGINT NOT NULL,                   -- from 1, per budget
  kind VARBINARY(8) NOT NULL,               -- collect | recycle
  status VARBINARY(8) NOT NULL,             -- open | done
  active BIGINT,                            -- 1 while open, NULL afterwards: one open run per budget
  target_bucket BIGINT NOT NULL,            -- collect: where the units go
  target_epoch BIGINT NOT NULL,             -- its epoch then
  target_activation BIGINT NOT NULL,        -- its lane's activation then
  units BIGINT NOT NULL,                    -- collect: what the target is to hold
  moved BIGINT NOT NULL,                    -- units moved, once done
  created_at BIGINT NOT NULL,               -- ms since 1970
  ended_at BIGINT NOT NULL,                 -- ms since 1970; 0: not yet
  PRIMARY KEY (budget_id, number),
  UNIQUE (budget_id, active)
);

-- Buckets kept in this database: the SQL store. A row is one epoch's balance.
CREATE TABLE store_balance (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- the epoch
  activation BIGINT NOT NULL,               -- the lane's activation under which it was opened
  closed BIGINT NOT NULL,                   -- 1: closed
  balance BIGINT NOT NULL,                  -- units: granted - deducted
  seq BIGINT NOT NULL,                      -- last log position
  grant_seq BIGINT NOT NULL,                -- grants that arrived
  granted BIGINT NOT NULL,                  -- units ever granted in this epoch
  deducted BIGINT NOT NULL,                 -- units ever deducted in this epoch
  chain VARBINARY(16) NOT NULL,             -- chain value of the last entry
  PRIMARY KEY (bucket_id, epoch),
  CHECK (balance >= 0)
);

-- The logs of those buckets, over all epochs.
CREATE TABLE store_log (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- the epoch
  seq BIGINT NOT NULL,                      -- position in it, from 0
  entry BLOB NOT NULL,                      -- chain value and line, as in every store
  PRIMARY KEY (bucket_id, epoch, seq)
);
