-- The database of budgetd: every table and column, in the common subset of MySQL 8.0.16,
-- MariaDB 10.6 and SQLite 3.40. budgetd runs this in an empty database as migration 1; later
-- migrations stand in internal/sqlstore/migrations and are folded in here.
--
-- Conventions
--   quantities   BIGINT, minor units (counted pieces, or the smallest coin), 0 … 2^53 - 1
--   *_ms         BIGINT, milliseconds since 1970-01-01T00:00Z; 0: none
--   texts        VARBINARY, BLOB or MEDIUMBLOB, bound as bytes: compared byte by byte in every engine. Under
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
  unfunded_quantity BIGINT NOT NULL DEFAULT 0, -- F, units that no period has been given yet
  undistributed_quantity BIGINT NOT NULL,   -- U, units of the open period that no bucket holds
  out_quantity BIGINT NOT NULL,             -- handed out, units: T - F - U - X
  quarantined_quantity BIGINT NOT NULL DEFAULT 0, -- Q, units of lost buckets in store mode
  forfeited_quantity BIGINT NOT NULL DEFAULT 0,   -- X, units of closed periods that expired
  pending_shrink_quantity BIGINT NOT NULL DEFAULT 0, -- units of shrinks that wait; apply may not take them
  sharding_quantity BIGINT NOT NULL,        -- the most one bucket may apply for at a time, units; 0: no bound
  bucket_quantity BIGINT NOT NULL,          -- number of buckets, 1 … 1,024
  resize_quantity BIGINT NOT NULL DEFAULT 0, -- number of buckets that it is being brought to; 0: none
  adjust_cnt BIGINT NOT NULL,               -- how many times one bucket may apply; 0: no bound
  type VARBINARY(8) NOT NULL,               -- promo | daily
  type_rule BLOB,                           -- application rule, JSON; NULL: none
  status VARBINARY(8) NOT NULL,             -- active | paused; pending, effective, expired follow from the clock
  start_ms BIGINT NOT NULL,                 -- first instant at which units can be deducted
  end_ms BIGINT NOT NULL,                   -- first instant at which they no longer can
  timezone VARBINARY(64) NOT NULL DEFAULT '', -- IANA zone of periods; empty: UTC
  routing_dimension VARBINARY(256),         -- dimension whose value picks the bucket; NULL: the key
  unused VARBINARY(8) NOT NULL DEFAULT 'spread', -- spread | next | forfeit: where goes what a period did not use; whole: a period gets all, promo and free
  late_refund VARBINARY(8) NOT NULL DEFAULT '', -- total | next | forfeit: where goes a refund whose period is over; empty: total
  period BIGINT NOT NULL DEFAULT 1,         -- number of the open or last period
  period_start_ms BIGINT NOT NULL DEFAULT 0, -- its first instant; 0: none
  period_end_ms BIGINT NOT NULL DEFAULT 0,  -- the first instant after it; 0: none
  is_over BIGINT NOT NULL DEFAULT 0,        -- 1: that period has ended and no other follows
  roll_over_ms BIGINT NOT NULL DEFAULT 0,   -- when a roll-over is due; 0: never
  created_as MEDIUMBLOB NOT NULL,           -- the definition it was created with, canonical JSON
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
  CHECK (undistributed_quantity >= 0 AND unfunded_quantity >= 0),
  CHECK (quarantined_quantity >= 0 AND forfeited_quantity >= 0 AND pending_shrink_quantity >= 0),
  CHECK (out_quantity = total_quantity - unfunded_quantity - undistributed_quantity - forfeited_quantity)
);
CREATE INDEX budget_management_bucket_roll_over ON budget_management_bucket (roll_over_ms);
CREATE INDEX budget_management_bucket_units ON budget_management_bucket (has_undistributed);
CREATE INDEX budget_management_bucket_resize ON budget_management_bucket (resize_quantity);

-- A period of a budget: a pair of instants, and what became of its units. A promo budget has one.
CREATE TABLE budget_period (
  budget_id BIGINT NOT NULL,                -- the budget
  number BIGINT NOT NULL,                   -- from 1
  start_ms BIGINT NOT NULL,                 -- first instant, ms since 1970; 0: none
  end_ms BIGINT NOT NULL,                   -- first instant after it, ms since 1970; 0: none
  funded_quantity BIGINT NOT NULL,          -- units it got of F, less those that went back while it was open
  carried_quantity BIGINT NOT NULL,         -- units that earlier periods left to it
  before_quantity BIGINT NOT NULL,          -- units used since its start when it was opened: a rule was changed within it
  returned_quantity BIGINT NOT NULL,        -- units that went back to F once it was over
  passed_quantity BIGINT NOT NULL,          -- units that it left to later periods
  forfeited_quantity BIGINT NOT NULL,       -- units that expired with it
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, number),
  CHECK (funded_quantity >= 0 AND carried_quantity >= 0 AND returned_quantity >= 0),
  CHECK (passed_quantity >= 0 AND forfeited_quantity >= 0)
);

-- A bucket: one shard of a budget.
CREATE TABLE sharding_budget_management_bucket (
  id BIGINT NOT NULL,                       -- number of the bucket, from `sequence`
  budget_id BIGINT NOT NULL,                -- the budget
  ordinal BIGINT NOT NULL,                  -- 0 … bucket_quantity - 1: the ring's node; above: retired
  sharding_bucket_key VARBINARY(128) NOT NULL, -- `<budget name>:bucket-<ordinal>`
  instance VARBINARY(63) NOT NULL,          -- the instance it lives in, as configured
  lane BIGINT NOT NULL,                     -- the lane of that instance, from 0
  out_quantity BIGINT NOT NULL,             -- total ever applied for, units
  sharding_quantity BIGINT NOT NULL,        -- units of its latest grant
  out_cnt BIGINT NOT NULL,                  -- number of applications since it was last recycled
  status VARBINARY(8) NOT NULL,             -- online | offline
  offline_by VARBINARY(8) NOT NULL,         -- operator | service | resize (retired); empty while online
  epoch BIGINT NOT NULL,                    -- number of its newest epoch: no other may be live
  is_idle BIGINT NOT NULL DEFAULT 0,        -- 1: online, and its newest epoch has ended: it needs another
  archived_entry BIGINT NOT NULL DEFAULT 0, -- last entry that is no longer in the feed; 0: none
  counters_from BIGINT NOT NULL DEFAULT 1,  -- epoch with which what its store counts against limits began: a move, another number of buckets, another activation and a lost epoch begin anew
  archiving_entry BIGINT NOT NULL DEFAULT 0, -- entries up to this one are being archived, where it is above archived_entry
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
  period BIGINT NOT NULL,                   -- number of the budget's period that its units are of
  late_quantity BIGINT NOT NULL DEFAULT 0,  -- the part of R that was used when its period was over
  period_end_ms BIGINT NOT NULL,            -- commits of entries at or after this instant return them; 0: none, always in store mode
  limits_version BIGINT NOT NULL DEFAULT 0, -- limits by which commits of this epoch are judged
  acknowledged_seq BIGINT NOT NULL DEFAULT 0, -- store mode: highest log position that a node has reported as acknowledged
  fenced VARBINARY(512) NOT NULL,           -- why nothing may move on it; empty: it may
  has_units BIGINT GENERATED ALWAYS AS (CASE WHEN outstanding_quantity + returning_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: counts in the sum of what is left
  has_returns BIGINT GENERATED ALWAYS AS (CASE WHEN returning_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: a sweep moves units to the total
  is_unfinished BIGINT GENERATED ALWAYS AS (CASE WHEN status = 'opening' OR status = 'closing' OR status = 'open' AND LENGTH(fenced) > 0 THEN 1 ELSE 0 END) STORED, -- 1: somebody has to go on with it
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (bucket_id, epoch),
  CHECK (outstanding_quantity >= 0 AND held_quantity >= 0 AND used_quantity >= 0),
  CHECK (returning_quantity >= late_quantity AND late_quantity >= 0),
  CHECK (closed_quantity >= 0 AND swept_quantity >= 0)
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
  nonce VARBINARY(8) NOT NULL,              -- of the call that began it; empty: the creation
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
  rolled_back BIGINT NOT NULL DEFAULT 0,    -- units given back since
  confirmed BIGINT NOT NULL DEFAULT 0,      -- units of a hold that were confirmed
  fingerprint VARBINARY(16) NOT NULL,       -- hash of the request with a format number; empty for a tombstone
  nonce VARBINARY(8) NOT NULL,              -- the call whose attempt was counted
  reference VARBINARY(256),                 -- the caller's note; NULL: none
  dimensions BLOB,                          -- canonical JSON; NULL: none
  counts BLOB,                              -- own amounts for single limits, canonical JSON; NULL: none
  hold_group VARBINARY(128),                -- holds confirmed together; NULL: none
  hold_until_ms BIGINT NOT NULL DEFAULT 0,  -- when a hold expires, or would have; 0: no hold
  bucket_id BIGINT,                         -- where it was deducted; NULL for a tombstone
  epoch BIGINT,                             -- its epoch; NULL for a tombstone
  seq BIGINT,                               -- position in that epoch's log
  entry BIGINT,                             -- number of this row in the bucket's part of the feed; NULL for a tombstone, and once it is archived
  counted_at BIGINT NOT NULL,               -- SQL's time of the commit, ms since 1970
  PRIMARY KEY (budget_id, request_id),
  UNIQUE (bucket_id, epoch, seq),
  CHECK (rolled_back >= 0 AND confirmed >= 0 AND rolled_back <= amount)
);
CREATE UNIQUE INDEX deduction_entry ON deduction (bucket_id, entry);

-- Deductions that are held, of all budgets: a row as long as `state` says so, written in the same transactions.
-- Few deductions are holds, and an index of deduction would have an entry of each.
CREATE TABLE open_hold (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- of the deduction
  due_ms BIGINT NOT NULL,                   -- when it has to be expired, ms since 1970: the deduction's hold_until_ms
  bucket_id BIGINT NOT NULL,                -- of the deduction
  epoch BIGINT NOT NULL,                    -- of the deduction
  PRIMARY KEY (budget_id, request_id)
);
CREATE INDEX open_hold_due ON open_hold (due_ms);
CREATE INDEX open_hold_epoch ON open_hold (bucket_id, epoch);

-- Which deductions have a hold_group, for as long as the ledger is kept.
CREATE TABLE group_member (
  budget_id BIGINT NOT NULL,                -- the budget
  hold_group VARBINARY(128) NOT NULL,       -- the group
  request_id VARBINARY(128) NOT NULL,       -- of the deduction
  PRIMARY KEY (budget_id, hold_group, request_id)
);

-- Groups of holds: the row is locked by whoever adds a member or closes the group.
CREATE TABLE group_of_holds (
  budget_id BIGINT NOT NULL,                -- the budget
  hold_group VARBINARY(128) NOT NULL,       -- the caller's name of it
  state VARBINARY(12) NOT NULL,             -- open | used | rolled_back: by its first confirm or rollback
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, hold_group)
);

-- How holds ended: confirmed or expired. One that was rolled back has rows of rollback_log instead.
CREATE TABLE hold_log (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- of the deduction
  kind VARBINARY(8) NOT NULL,               -- confirm | expire
  amount BIGINT NOT NULL,                   -- units confirmed or expired
  returned BIGINT NOT NULL,                 -- units given back by it
  bucket_id BIGINT NOT NULL,                -- of the deduction
  epoch BIGINT NOT NULL,                    -- of the deduction
  entry BIGINT,                             -- number of this row in the bucket's part of the feed; NULL once it is archived
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, request_id),
  CHECK (amount >= 0 AND returned >= 0)
);
CREATE INDEX hold_log_epoch ON hold_log (bucket_id, epoch);
CREATE UNIQUE INDEX hold_log_entry ON hold_log (bucket_id, entry);

-- Which deductions carry a value of a dimension: a row per dimension of each deduction.
CREATE TABLE deduction_value (
  budget_id BIGINT NOT NULL,                -- the budget
  dimension VARBINARY(256) NOT NULL,        -- the caller's name of it
  value VARBINARY(256) NOT NULL,            -- its value
  counted_at BIGINT NOT NULL,               -- the deduction's, ms since 1970
  request_id VARBINARY(128) NOT NULL,       -- of the deduction
  PRIMARY KEY (budget_id, dimension, value, counted_at, request_id)
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
  entry BIGINT,                             -- number of this row in the bucket's part of the feed; NULL once it is archived
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, request_id, rollback_id),
  CHECK (amount > 0)
);
CREATE INDEX rollback_log_epoch ON rollback_log (bucket_id, epoch);
CREATE UNIQUE INDEX rollback_log_entry ON rollback_log (bucket_id, entry);

-- Entries that a store admitted and the ledger did not count; their units went to R.
CREATE TABLE duplicate (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- its epoch
  seq BIGINT NOT NULL,                      -- position in that epoch's log
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- the caller's, byte by byte
  nonce VARBINARY(8) NOT NULL,              -- the call whose attempt it was
  amount BIGINT NOT NULL,                   -- units
  reason VARBINARY(16) NOT NULL,            -- duplicate | void | expired | limit | group
  figures BLOB,                             -- what a refusal reports, JSON; NULL: nothing
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (bucket_id, epoch, seq)
);

-- Limits of a budget.
CREATE TABLE budget_limit (
  budget_id BIGINT NOT NULL,                -- the budget
  name VARBINARY(63) NOT NULL,              -- unique within the budget
  definition MEDIUMBLOB NOT NULL,           -- JSON as the contract has it
  ordinal BIGINT NOT NULL,                  -- its place among the budget's limits, from 0
  changed_version BIGINT NOT NULL,          -- limits_version when what it counts was last another
  changed_ms BIGINT NOT NULL,               -- when that was, ms since 1970
  PRIMARY KEY (budget_id, name)
);

-- Counters of limits: a view of the ledger, kept by every commit and return. Of calendar and lifetime
-- windows one row each; of a first_hit window the last one; of a sliding one a head, which is what
-- committers lock, and one row per slot.
CREATE TABLE limit_counter (
  budget_id BIGINT NOT NULL,                -- the budget
  limit_name VARBINARY(63) NOT NULL,        -- the limit
  value VARBINARY(1024) NOT NULL,           -- value of the dimension, combined ones length-prefixed; long ones hashed
  window_ms BIGINT NOT NULL,                -- when the calendar window or slot began, ms since 1970; 0: lifetime, first_hit, head
  counted BIGINT NOT NULL DEFAULT 0,        -- calls or units, as the limit measures; 0 in a head
  began_ms BIGINT NOT NULL DEFAULT 0,       -- when a first_hit window began; 0: none
  version BIGINT NOT NULL DEFAULT 0,        -- changed_version of the limit by which it was loaded; 0: not yet
  expires_ms BIGINT NOT NULL,               -- when the row may be removed, ms since 1970; 0: never
  PRIMARY KEY (budget_id, limit_name, value, window_ms)
);
CREATE INDEX limit_counter_expires ON limit_counter (expires_ms);

-- Lanes: which memory SQL has verified.
CREATE TABLE lane (
  instance VARBINARY(63) NOT NULL,          -- the instance, as configured
  lane BIGINT NOT NULL,                     -- number of the lane within it, from 0
  identity VARBINARY(512) NOT NULL,         -- who the store said it was
  activation BIGINT NOT NULL,               -- grows whenever that memory can no longer be taken for the one known
  is_draining BIGINT NOT NULL DEFAULT 0,    -- 1: its buckets move elsewhere, and no epoch begins on it
  last_reached_ms BIGINT NOT NULL DEFAULT 0, -- when a node last noted that it reached it, ms since 1970; every note makes it grow
  PRIMARY KEY (instance, lane)
);

-- Buckets that have left a lane, and whether what their store kept of them is removed.
CREATE TABLE departure (
  instance VARBINARY(63) NOT NULL,          -- the instance, as configured
  lane BIGINT NOT NULL,                     -- number of the lane within it, from 0
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- its newest epoch when it left: ended
  activation BIGINT NOT NULL,               -- the lane's activation when it left
  is_cleared BIGINT NOT NULL,               -- 1: its keys are gone from the store
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (instance, lane, bucket_id)
);

-- Store mode: which nodes say "accepted" on the word of a lane under an activation, and whether they
-- have reported what they said.
CREATE TABLE lane_use (
  instance VARBINARY(63) NOT NULL,          -- the instance, as configured
  lane BIGINT NOT NULL,                     -- number of the lane within it, from 0
  activation BIGINT NOT NULL,               -- the lane's activation
  node VARBINARY(32) NOT NULL,              -- the node, a new one with each start
  is_reported BIGINT NOT NULL,              -- 1: it acknowledges nothing more; its positions are in acknowledged_seq
  until_ms BIGINT NOT NULL,                 -- until when it may acknowledge unless it says again that it is alive, ms since 1970
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (instance, lane, activation, node)
);
CREATE INDEX lane_use_node ON lane_use (node, is_reported);
CREATE INDEX lane_use_until ON lane_use (is_reported, until_ms);

-- Store mode: what an epoch held, beyond the ledger, when its store lost its memory.
CREATE TABLE quarantine (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- the epoch
  budget_id BIGINT NOT NULL,                -- the budget
  instance VARBINARY(63) NOT NULL,          -- where the epoch lived: its bucket may have moved since
  lane BIGINT NOT NULL,                     -- the lane of that instance
  quantity BIGINT NOT NULL,                 -- units that went into quarantine
  released_quantity BIGINT NOT NULL,        -- units released since
  is_held BIGINT GENERATED ALWAYS AS (CASE WHEN quantity > released_quantity THEN 1 ELSE 0 END) STORED, -- 1: units are in quarantine
  cause VARBINARY(512) NOT NULL,            -- why it could not be proven that they were not sold
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (bucket_id, epoch),
  CHECK (quantity > 0 AND released_quantity >= 0 AND released_quantity <= quantity)
);
CREATE INDEX quarantine_budget ON quarantine (budget_id, bucket_id, epoch);
CREATE INDEX quarantine_held ON quarantine (is_held);

-- Store mode: units that left quarantine, back to the total.
CREATE TABLE quarantine_release (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- the operator's; empty: proven by the nodes' reports
  bucket_id BIGINT NOT NULL,                -- of the quarantine
  epoch BIGINT NOT NULL,                    -- of the quarantine
  quantity BIGINT NOT NULL,                 -- units released
  asked_quantity BIGINT NOT NULL,           -- units asked for in all; 0: whatever was held
  reason VARBINARY(512) NOT NULL,           -- why, in the operator's words
  released_by VARBINARY(128) NOT NULL,      -- who decided
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, request_id, bucket_id, epoch),
  CHECK (quantity > 0)
);

-- Store mode: the request ids of the tombstones, in the order in which they were made. A node that meets
-- an epoch which began after them reads them from here.
CREATE TABLE void_request (
  budget_id BIGINT NOT NULL,                -- the budget
  number BIGINT NOT NULL,                   -- counts them from 1, without gaps
  request_id VARBINARY(128) NOT NULL,       -- the caller's, byte by byte
  PRIMARY KEY (budget_id, number)
);

-- Runs that bring fragments together: one collect and one recycle per budget at a time.
CREATE TABLE run (
  budget_id BIGINT NOT NULL,                -- the budget
  number BIGINT NOT NULL,                   -- from 1, per budget
  kind VARBINARY(8) NOT NULL,               -- collect | recycle
  status VARBINARY(8) NOT NULL,             -- open | done
  active BIGINT,                            -- 1: an open collect, 2: an open recycle; NULL afterwards
  target_bucket BIGINT NOT NULL,            -- collect: where the units go; 0: a recycle
  target_epoch BIGINT NOT NULL,             -- its epoch then
  target_activation BIGINT NOT NULL,        -- its lane's activation then
  units BIGINT NOT NULL,                    -- collect: what the target is to hold
  moved BIGINT NOT NULL,                    -- units moved; of a collect once done
  cause VARBINARY(12),                      -- recycle: operator | schedule | automatic; NULL: a collect
  holder VARBINARY(32),                     -- recycle: who works on it
  plan BLOB,                                -- recycle: its buckets in order with the epochs that end, `<bucket>:<epoch>` with spaces between
  buckets_done BIGINT NOT NULL DEFAULT 0,   -- recycle: how many of the plan are behind it
  buckets_skipped BIGINT NOT NULL DEFAULT 0, -- recycle: how many of those could not be recycled
  units_before BIGINT NOT NULL DEFAULT 0,   -- recycle: U and O of live epochs when it began, units
  stranded_before BIGINT NOT NULL DEFAULT 0, -- recycle: how much of it was stranded, units
  units_after BIGINT NOT NULL DEFAULT 0,    -- recycle: U and O of live epochs when it ended, units
  stranded_after BIGINT NOT NULL DEFAULT 0, -- recycle: how much of it was stranded, units
  created_at BIGINT NOT NULL,               -- ms since 1970
  touched_ms BIGINT NOT NULL DEFAULT 0,     -- recycle: when its holder last went on with it, ms since 1970
  ended_at BIGINT NOT NULL,                 -- ms since 1970; 0: not yet
  PRIMARY KEY (budget_id, number),
  UNIQUE (budget_id, active)
);
CREATE INDEX run_active ON run (active, created_at);

-- A budget's figures over time: one row a minute, where something changed since the one before.
CREATE TABLE budget_sample (
  budget_id BIGINT NOT NULL,                -- the budget
  at_ms BIGINT NOT NULL,                    -- the full minute whose beginning it shows
  total_quantity BIGINT NOT NULL,           -- T, units
  undistributed_quantity BIGINT NOT NULL,   -- U, units
  quarantined_quantity BIGINT NOT NULL,     -- Q, units
  forfeited_quantity BIGINT NOT NULL,       -- X, units
  remaining_quantity BIGINT NOT NULL,       -- O of the open epochs, units
  in_transit_quantity BIGINT NOT NULL,      -- R of all epochs, O of opening and closing ones, units
  held_quantity BIGINT NOT NULL,            -- H of all epochs, units
  used_quantity BIGINT NOT NULL,            -- S of all epochs, units
  stranded_quantity BIGINT NOT NULL,        -- units in buckets out of reach or fenced, and fragments
  PRIMARY KEY (budget_id, at_ms)
);
CREATE INDEX budget_sample_at ON budget_sample (at_ms);

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
