-- The database of budgetd: every table and column, in the common subset of MySQL 8.0.16,
-- MariaDB 10.6 and SQLite 3.40. budgetd runs this in an empty database as migration 1.
--
-- Conventions
--   quantities   BIGINT, minor units (counted pieces, or the smallest coin), 0 … 2^53 - 1
--   *_ms, *_at   BIGINT, milliseconds since 1970-01-01T00:00Z; 0 stands for no instant
--   texts        VARBINARY, BLOB or MEDIUMBLOB, bound as bytes and compared byte by byte. Under
--                MariaDB's default collation `order-A`, `order-a` and `order-a ` would be one key;
--                in SQLite a text bound to VARBINARY would become the number 7 for `007`.
--   words        statuses, kinds, types and reasons of budgetd itself: lower-case letters, written
--                as text, because SQLite never finds bytes equal to a text literal
--   ids          handed out by budgetd from `sequence`; no AUTO_INCREMENT
--   lock order   access_state, budget, deductions, group, limit rows, epochs by (bucket, epoch),
--                feed, audit_log_head; within each by primary key
--   T F U Q X O H S R  the letters of the accounting, docs/INVARIANTS.md:
--                T = F + U + sum of (O + H + S + R) + Q + X at every commit, every term at least 0
-- Real differences between the engines are in internal/sqlstore/engine and nowhere else.

-- Numbers that budgetd hands out.
CREATE TABLE sequence (
  name VARBINARY(32) NOT NULL,              -- budget | bucket
  next_id BIGINT NOT NULL,                  -- the next id to hand out, from 1
  PRIMARY KEY (name)
);

-- What is true of the whole database.
CREATE TABLE installation (
  only_row BIGINT NOT NULL,                 -- always 1
  installation_id VARBINARY(32) NOT NULL,   -- made with the database; part of every key in a store
  ring_version BIGINT NOT NULL,             -- format of the ring's hash and labels
  format BIGINT NOT NULL,                   -- 2: the second design; budgetd refuses any other
  created_ms BIGINT NOT NULL,               -- when the database was made
  PRIMARY KEY (only_row),
  CHECK (only_row = 1)
);

-- A budget: the total and what no bucket holds.
CREATE TABLE budget_management_bucket (
  id BIGINT NOT NULL,                       -- number of the budget, from `sequence`
  tenant VARBINARY(63) NOT NULL,            -- business line; `default`
  name VARBINARY(63) NOT NULL,              -- unique within the tenant
  gl_code VARBINARY(128) NOT NULL,          -- ledger account; may be empty
  unit VARBINARY(8) NOT NULL,               -- count | amount
  durability VARBINARY(8) NOT NULL,         -- ledger | store: where the truth is (DESIGN's two modes)
  on_loss VARBINARY(16) NOT NULL DEFAULT 'quarantine', -- store mode: quarantine | assume_unused
  unlimited BIGINT NOT NULL DEFAULT 0,      -- 1: no total; nothing is drawn from it
  total_quantity BIGINT NOT NULL,           -- T, units; 0 for an unlimited budget
  unfunded_quantity BIGINT NOT NULL DEFAULT 0, -- F, units that no period has been given yet
  undistributed_quantity BIGINT NOT NULL,   -- U, units of the open period that no bucket holds
  out_quantity BIGINT NOT NULL,             -- handed out, units: T - F - U - X
  quarantined_quantity BIGINT NOT NULL DEFAULT 0, -- Q, units of lost buckets in store mode
  forfeited_quantity BIGINT NOT NULL DEFAULT 0,   -- X, units of closed periods that expired
  pending_shrink_quantity BIGINT NOT NULL DEFAULT 0, -- store mode: units of shrinks that wait; apply may not take them
  sharding_quantity BIGINT NOT NULL,        -- the most one bucket may apply for at a time, units; 0: no bound
  bucket_quantity BIGINT NOT NULL,          -- number of buckets, 1 … 1,024
  adjust_cnt BIGINT NOT NULL,               -- how often one bucket may apply for units that were never handed out; 0: no bound
  type VARBINARY(8) NOT NULL,               -- promo | daily
  type_rule BLOB,                           -- application rule, JSON; NULL for promo
  status VARBINARY(12) NOT NULL,            -- pending | effective | paused | expired, at most 1 s late; decisions use the clock
  status_due_ms BIGINT NOT NULL DEFAULT 0,  -- when the clock next makes the status another; 0: never
  is_paused BIGINT NOT NULL DEFAULT 0,      -- 1: an operator paused it
  start_ms BIGINT NOT NULL,                 -- first instant at which units can be deducted
  end_ms BIGINT NOT NULL,                   -- first instant at which they no longer can
  timezone VARBINARY(64) NOT NULL DEFAULT '', -- IANA zone of periods; empty: UTC
  routing_dimension VARBINARY(256),         -- dimension whose value picks the bucket; NULL: the key
  unused VARBINARY(8) NOT NULL DEFAULT 'spread', -- spread | next | forfeit: where what a period did not use goes; whole: one period gets all
  late_refund VARBINARY(8) NOT NULL DEFAULT '', -- total | next | forfeit: where a refund goes whose period is over; empty: total
  period BIGINT NOT NULL DEFAULT 1,         -- number of the open or last period
  period_start_ms BIGINT NOT NULL DEFAULT 0, -- its first instant
  period_end_ms BIGINT NOT NULL DEFAULT 0,  -- the first instant after it
  is_over BIGINT NOT NULL DEFAULT 0,        -- 1: that period has ended and no other follows
  roll_over_ms BIGINT NOT NULL DEFAULT 0,   -- when a rollover is due; 0: never
  created_as MEDIUMBLOB NOT NULL,           -- the definition it was created with, canonical JSON
  version BIGINT NOT NULL,                  -- grows with each change of the definition, its limits included
  list_version BIGINT NOT NULL,             -- grows with each change of the bucket list, and with each new epoch
  limits_version BIGINT NOT NULL DEFAULT 0, -- grows with each change of the limits
  next_run BIGINT NOT NULL DEFAULT 1,       -- number of the next row in recycle_run
  created_at BIGINT NOT NULL,                -- ms since 1970
  updated_at BIGINT NOT NULL,               -- of the last change of the definition
  has_undistributed BIGINT GENERATED ALWAYS AS (CASE WHEN undistributed_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: there are units to hand out
  PRIMARY KEY (id),
  UNIQUE (tenant, name),
  CHECK (total_quantity >= 0 AND total_quantity <= 9007199254740991),
  CHECK (undistributed_quantity >= 0 AND unfunded_quantity >= 0),
  CHECK (quarantined_quantity >= 0 AND forfeited_quantity >= 0 AND pending_shrink_quantity >= 0),
  CHECK (out_quantity = total_quantity - unfunded_quantity - undistributed_quantity - forfeited_quantity)
);
CREATE INDEX budget_management_bucket_roll_over ON budget_management_bucket (roll_over_ms);
CREATE INDEX budget_management_bucket_status ON budget_management_bucket (status_due_ms);
CREATE INDEX budget_management_bucket_units ON budget_management_bucket (has_undistributed);

-- A period of a budget: a pair of instants, and what became of its units. A promo budget has one.
CREATE TABLE budget_period (
  budget_id BIGINT NOT NULL,                -- the budget
  number BIGINT NOT NULL,                   -- from 1
  start_ms BIGINT NOT NULL,                 -- first instant
  end_ms BIGINT NOT NULL,                   -- first instant after it
  funded_quantity BIGINT NOT NULL,          -- units it got of F, less those that went back while it was open
  carried_quantity BIGINT NOT NULL,         -- units that earlier periods left to it
  before_quantity BIGINT NOT NULL,          -- units used since its start when it was opened: a rule was changed within it
  returned_quantity BIGINT NOT NULL,        -- units that went back to F once it was over
  passed_quantity BIGINT NOT NULL,          -- units that it left to later periods
  forfeited_quantity BIGINT NOT NULL,       -- units that expired with it
  created_at BIGINT NOT NULL,                -- ms since 1970
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
  out_cnt BIGINT NOT NULL,                  -- applications for units never handed out before, since it was last recycled
  status VARBINARY(8) NOT NULL,             -- online | offline
  offline_by VARBINARY(8) NOT NULL,         -- operator | service | resize (retired); empty while online
  epoch BIGINT NOT NULL,                    -- number of its newest epoch: no other may be live
  copied_epoch BIGINT NOT NULL DEFAULT 0,   -- store mode: the closed epoch whose copy the lane it moved to has; 0: never moved
  created_at BIGINT NOT NULL,                -- ms since 1970
  updated_at BIGINT NOT NULL,                -- ms since 1970
  PRIMARY KEY (id),
  UNIQUE (budget_id, ordinal)
);
CREATE INDEX sharding_budget_management_bucket_lane ON sharding_budget_management_bucket (instance, lane, id);

-- One life of a bucket between coming online and going offline, within one period. Its row lock is
-- the per-bucket global lock.
CREATE TABLE bucket_epoch (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- from 1; only grows
  budget_id BIGINT NOT NULL,                -- the budget
  status VARBINARY(8) NOT NULL,             -- open | closed; in store mode also opening | closing | lost
  period BIGINT NOT NULL,                   -- number of the budget's period that its units are of
  period_end_ms BIGINT NOT NULL,            -- nothing is deducted from this instant on; 0: no end
  definition_version BIGINT NOT NULL,       -- the budget's version: whoever judged by an older one judges again
  fill BIGINT NOT NULL,                     -- ledger mode: number of what a filter may hold of it; continues from epoch to epoch
  outstanding_quantity BIGINT NOT NULL,     -- O, units granted and neither used, held nor given back
  held_quantity BIGINT NOT NULL,            -- H, units of holds
  used_quantity BIGINT NOT NULL,            -- S, units of deductions
  returning_quantity BIGINT NOT NULL,       -- R, units on their way back to the total
  late_quantity BIGINT NOT NULL DEFAULT 0,  -- the part of R that was used when its period was over
  closed_quantity BIGINT NOT NULL,          -- units that left O without being used: offline, recycle, collect, shrink, loss
  swept_quantity BIGINT NOT NULL,           -- units that were ever moved out of R
  next_grant BIGINT NOT NULL,               -- number of the next grant, from 1
  next_entry BIGINT NOT NULL,               -- number of the bucket's next feed entry, from 1; continues from epoch to epoch
  activation BIGINT NOT NULL DEFAULT 0,     -- store mode: the lane's activation under which it was opened
  taken_quantity BIGINT NOT NULL DEFAULT 0, -- store mode: units ever taken, as of the last sync
  given_back_quantity BIGINT NOT NULL DEFAULT 0, -- store mode: units ever given back into the balance, as of the last sync
  late_sum_quantity BIGINT NOT NULL DEFAULT 0, -- store mode: units given back after the epoch, as of the last sync
  fenced VARBINARY(512) NOT NULL,           -- why nothing may move on it; empty: it may
  has_units BIGINT GENERATED ALWAYS AS (CASE WHEN outstanding_quantity + returning_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: counts in the sum of what is left
  has_returns BIGINT GENERATED ALWAYS AS (CASE WHEN returning_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: a sweep moves units to the total
  is_unfinished BIGINT GENERATED ALWAYS AS (CASE WHEN status = 'opening' OR status = 'closing' THEN 1 ELSE 0 END) STORED, -- 1: store mode: somebody has to go on with it
  created_at BIGINT NOT NULL,                -- ms since 1970
  PRIMARY KEY (bucket_id, epoch),
  CHECK (outstanding_quantity >= 0 AND held_quantity >= 0 AND used_quantity >= 0),
  CHECK (returning_quantity >= late_quantity AND late_quantity >= 0),
  CHECK (closed_quantity >= 0 AND swept_quantity >= 0)
);
CREATE INDEX bucket_epoch_units ON bucket_epoch (budget_id, has_units);
CREATE INDEX bucket_epoch_returns ON bucket_epoch (has_returns, budget_id);
CREATE INDEX bucket_epoch_unfinished ON bucket_epoch (is_unfinished);

-- One numbered movement of units into a bucket: apply, hand-out, recycle, collect.
CREATE TABLE grant_log (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- the epoch that got the units
  number BIGINT NOT NULL,                   -- from 1, without gaps
  budget_id BIGINT NOT NULL,                -- the budget
  kind VARBINARY(8) NOT NULL,               -- apply (units never handed out before) | again (units that came back) | collect
  amount BIGINT NOT NULL,                   -- units
  status VARBINARY(8) NOT NULL,             -- done; store mode: pending until the store has it | void (its epoch ended before)
  created_at BIGINT NOT NULL,                -- ms since 1970
  PRIMARY KEY (bucket_id, epoch, number),
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
  status VARBINARY(8) NOT NULL,             -- done; store mode: pending | refused
  deadline_ms BIGINT NOT NULL,              -- when a pending shrink is refused
  created_at BIGINT NOT NULL,                -- ms since 1970
  updated_at BIGINT NOT NULL,                -- ms since 1970
  PRIMARY KEY (budget_id, request_id)
);
CREATE INDEX adjustment_status ON adjustment (status);

-- Ledger mode: what every deduction has, in one row; no secondary index, no cold column. What few
-- deductions have is in rows of `hold` and `give_back`, written when it happens.
CREATE TABLE deduction (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- the caller's, byte by byte
  bucket_id BIGINT NOT NULL,                -- where it was deducted; 0: a tombstone, the id was cancelled
  epoch BIGINT NOT NULL,                    -- its epoch; 0 for a tombstone
  amount BIGINT NOT NULL,                   -- units; 0 for a tombstone
  fingerprint VARBINARY(16) NOT NULL,       -- hash of the request with a format number; empty for a tombstone
  nonce VARBINARY(8) NOT NULL,              -- of the call whose attempt was counted
  counted_at BIGINT NOT NULL,               -- SQL's time of the commit
  note BLOB,                                -- reference, dimensions and counts, packed by package ledger; NULL: it has none
  PRIMARY KEY (budget_id, request_id),
  CHECK (amount >= 0)
);

-- Deductions that are or were holds.
CREATE TABLE hold (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- of the deduction
  state VARBINARY(12) NOT NULL,             -- held | used (confirmed) | expired | rolled_back
  hold_group VARBINARY(128),                -- holds confirmed together; NULL: it belongs to no group
  hold_until_ms BIGINT NOT NULL,            -- when it expires, or would have
  due_ms BIGINT,                            -- the same while it is held; NULL afterwards
  confirmed BIGINT NOT NULL DEFAULT 0,      -- units that were confirmed
  bucket_id BIGINT NOT NULL,                -- of the deduction
  epoch BIGINT NOT NULL,                    -- of the deduction
  PRIMARY KEY (budget_id, request_id),
  CHECK (confirmed >= 0)
);
CREATE INDEX hold_due ON hold (due_ms);
CREATE INDEX hold_of_group ON hold (budget_id, hold_group);

-- Groups of holds: whoever adds a member or closes the group locks its row.
CREATE TABLE group_of_holds (
  budget_id BIGINT NOT NULL,                -- the budget
  hold_group VARBINARY(128) NOT NULL,       -- the caller's name of it
  state VARBINARY(12) NOT NULL,             -- open | used | rolled_back: by its first confirm or rollback
  created_at BIGINT NOT NULL,                -- ms since 1970
  PRIMARY KEY (budget_id, hold_group)
);

-- Units of a deduction that came back: rollbacks, and the ends of holds.
CREATE TABLE give_back (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- of the deduction
  kind VARBINARY(8) NOT NULL,               -- rollback | confirm | expire
  rollback_id VARBINARY(128) NOT NULL,      -- the caller's; empty: the whole, and beside confirm and expire
  amount BIGINT NOT NULL,                   -- units given back; 0: all of a hold was confirmed
  is_whole BIGINT NOT NULL,                 -- 1: asked for all that was left
  is_direct BIGINT NOT NULL,                -- 1: into O of the epoch, which was open; 0: into R
  bucket_id BIGINT NOT NULL,                -- of the deduction
  epoch BIGINT NOT NULL,                    -- of the deduction
  created_at BIGINT NOT NULL,                -- ms since 1970
  PRIMARY KEY (budget_id, request_id, kind, rollback_id),
  CHECK (amount >= 0)
);

-- The change feed: one row per flight and bucket, with the entries in it (package ledger packs them).
-- Numbers are per bucket, in the order of commits, and may have gaps.
CREATE TABLE feed (
  bucket_id BIGINT NOT NULL,                -- the bucket
  first_entry BIGINT NOT NULL,              -- number of its first entry
  entries BIGINT NOT NULL,                  -- how many entries it has
  units BIGINT NOT NULL,                    -- sum of what they deduct less what they give back, units; may be negative
  body MEDIUMBLOB NOT NULL,                 -- the entries
  created_at BIGINT NOT NULL,                -- ms since 1970
  PRIMARY KEY (bucket_id, first_entry)
);

-- Which deductions carry a value of a dimension: a row per dimension of each deduction. It answers what
-- a value took in any period, and gives a limit that counts something else its true count.
CREATE TABLE deduction_value (
  budget_id BIGINT NOT NULL,                -- the budget
  dimension VARBINARY(256) NOT NULL,        -- the caller's name of it
  value VARBINARY(256) NOT NULL,            -- its value
  counted_at BIGINT NOT NULL,               -- the deduction's
  request_id VARBINARY(128) NOT NULL,       -- of the deduction
  PRIMARY KEY (budget_id, dimension, value, counted_at, request_id)
);

-- Limits of a budget.
CREATE TABLE budget_limit (
  budget_id BIGINT NOT NULL,                -- the budget
  name VARBINARY(63) NOT NULL,              -- unique within the budget
  definition MEDIUMBLOB NOT NULL,           -- JSON as the contract has it
  ordinal BIGINT NOT NULL,                  -- its place among the budget's limits, from 0
  changed_version BIGINT NOT NULL,          -- limits_version when what it counts was last another
  changed_ms BIGINT NOT NULL,               -- when that was
  PRIMARY KEY (budget_id, name)
);

-- Ledger mode: what limits have counted of one value of a dimension, all windows of all its limits in
-- one row, packed by package limit. Whoever writes it names the version that it read.
CREATE TABLE limit_counter (
  budget_id BIGINT NOT NULL,                -- the budget
  dimension VARBINARY(256) NOT NULL,        -- the limits' dimension, combined ones as in the definition
  value VARBINARY(1024) NOT NULL,           -- its value; combined ones length-prefixed, long ones hashed
  version BIGINT NOT NULL,                  -- grows by one with each write
  counts MEDIUMBLOB NOT NULL,               -- the windows
  expires_ms BIGINT NOT NULL,               -- when the row may be removed; 0: never
  PRIMARY KEY (budget_id, dimension, value),
  CHECK (version > 0)
);
CREATE INDEX limit_counter_expires ON limit_counter (expires_ms);

-- Store mode: lanes, and which memory SQL has verified. Ledger mode: which lanes are drained.
CREATE TABLE lane (
  instance VARBINARY(63) NOT NULL,          -- the instance, as configured
  lane BIGINT NOT NULL,                     -- number of the lane within it, from 0
  identity VARBINARY(512) NOT NULL,         -- run id, replication id and role that were verified; empty: never reached
  activation BIGINT NOT NULL,               -- grows whenever that memory can no longer be taken for the one known
  since_activation BIGINT NOT NULL,         -- the first activation since which this memory was kept without a gap
  is_draining BIGINT NOT NULL DEFAULT 0,    -- 1: its buckets move elsewhere, and no epoch begins on it
  activated_at BIGINT NOT NULL,             -- when the present activation began
  synced_at BIGINT NOT NULL DEFAULT 0,      -- when a sync of it was last finished
  cause VARBINARY(512) NOT NULL DEFAULT '', -- why the present activation began
  PRIMARY KEY (instance, lane)
);

-- Store mode: what an epoch held when its store lost its memory.
CREATE TABLE quarantine (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- the epoch
  budget_id BIGINT NOT NULL,                -- the budget
  instance VARBINARY(63) NOT NULL,          -- where the epoch lived
  lane BIGINT NOT NULL,                     -- the lane of that instance
  quantity BIGINT NOT NULL,                 -- units that went into quarantine
  released_quantity BIGINT NOT NULL,        -- units released since
  is_held BIGINT GENERATED ALWAYS AS (CASE WHEN quantity > released_quantity THEN 1 ELSE 0 END) STORED, -- 1: units are in quarantine
  cause VARBINARY(512) NOT NULL,            -- why it is not known how many of them were sold
  created_at BIGINT NOT NULL,                -- ms since 1970
  PRIMARY KEY (bucket_id, epoch),
  CHECK (quantity > 0 AND released_quantity >= 0 AND released_quantity <= quantity)
);
CREATE INDEX quarantine_budget ON quarantine (budget_id, bucket_id, epoch);
CREATE INDEX quarantine_held ON quarantine (is_held);

-- Store mode: units that left quarantine by an operator's decision.
CREATE TABLE quarantine_release (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- the operator's
  bucket_id BIGINT NOT NULL,                -- of the quarantine
  epoch BIGINT NOT NULL,                    -- of the quarantine
  quantity BIGINT NOT NULL,                 -- units released
  goes_to VARBINARY(8) NOT NULL,            -- total (they were not sold) | used (they were)
  asked_quantity BIGINT NOT NULL,           -- units asked for in all; 0: all that was held
  reason VARBINARY(512) NOT NULL,           -- why, in the operator's words
  released_by VARBINARY(128) NOT NULL,      -- who decided
  created_at BIGINT NOT NULL,                -- ms since 1970
  PRIMARY KEY (budget_id, request_id, bucket_id, epoch),
  CHECK (quantity > 0)
);

-- Recycles, each with its report.
CREATE TABLE recycle_run (
  budget_id BIGINT NOT NULL,                -- the budget
  number BIGINT NOT NULL,                   -- from 1, per budget
  cause VARBINARY(12) NOT NULL,             -- operator | schedule | automatic
  is_open BIGINT,                           -- 1: it goes on; NULL afterwards
  next_ordinal BIGINT NOT NULL DEFAULT 0,   -- buckets below it are done
  buckets BIGINT NOT NULL DEFAULT 0,        -- how many buckets it recycled
  buckets_skipped BIGINT NOT NULL DEFAULT 0, -- how many of those could not be recycled
  moved BIGINT NOT NULL DEFAULT 0,          -- units that came back to the total
  units_before BIGINT NOT NULL DEFAULT 0,   -- U and O when it began, units
  stranded_before BIGINT NOT NULL DEFAULT 0, -- how much of it was stranded, units
  units_after BIGINT NOT NULL DEFAULT 0,    -- U and O when it ended, units
  stranded_after BIGINT NOT NULL DEFAULT 0, -- how much of it was stranded, units
  created_at BIGINT NOT NULL,                -- ms since 1970
  touched_ms BIGINT NOT NULL DEFAULT 0,     -- when somebody last went on with it
  ended_at BIGINT NOT NULL DEFAULT 0,       -- 0: it goes on
  PRIMARY KEY (budget_id, number),
  UNIQUE (budget_id, is_open)
);
CREATE INDEX recycle_run_open ON recycle_run (is_open, created_at);

-- A budget's figures over time: one row a minute, where something changed since the one before.
CREATE TABLE budget_sample (
  budget_id BIGINT NOT NULL,                -- the budget
  at_ms BIGINT NOT NULL,                    -- the full minute whose beginning it shows
  total_quantity BIGINT NOT NULL,           -- T, units
  undistributed_quantity BIGINT NOT NULL,   -- F + U, units
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

-- API keys. The secret of a key is nowhere: only its SHA-256 is kept.
CREATE TABLE access_key (
  key_id VARBINARY(10) NOT NULL,            -- public part of the key
  secret_hash VARBINARY(32) NOT NULL,       -- SHA-256 of its secret
  principal VARBINARY(128) NOT NULL,        -- whose it is
  role VARBINARY(16) NOT NULL,              -- read | deduct | rollback | operator | admin
  tenant VARBINARY(63) NOT NULL,            -- the only tenant it is for; empty: all of them
  budgets BLOB,                             -- patterns of names, JSON list; NULL: all budgets
  created_ms BIGINT NOT NULL,               -- when it was issued
  created_by VARBINARY(128) NOT NULL,       -- principal that issued it
  expires_ms BIGINT NOT NULL DEFAULT 0,     -- first instant at which it is refused; 0: never
  last_used_ms BIGINT NOT NULL DEFAULT 0,   -- the hour of its last use; 0: not used yet
  revoked_ms BIGINT NOT NULL DEFAULT 0,     -- when it was revoked; 0: it is not
  PRIMARY KEY (key_id)
);

CREATE INDEX access_key_principal ON access_key (tenant, principal);

-- Tells nodes that keys have changed. Each transaction that changes keys locks the row first.
CREATE TABLE access_state (
  only_row BIGINT NOT NULL,                 -- always 1
  version BIGINT NOT NULL,                  -- goes up by one with each change of keys
  PRIMARY KEY (only_row),
  CHECK (only_row = 1)
);

-- The audit log: who did what. Rows are appended in the transaction of their effect and form a hash
-- chain (package trail). Nothing changes a row; only audit_log.keep removes rows, the oldest first.
CREATE TABLE audit_log (
  seq BIGINT NOT NULL,                      -- 1, 2, 3 … without gaps, in the order of the commits
  at_ms BIGINT NOT NULL,                    -- when the call was made
  principal VARBINARY(128) NOT NULL,        -- who made it; empty: not authenticated
  key_id VARBINARY(10) NOT NULL,            -- with which key; empty: without one
  source VARBINARY(64) NOT NULL,            -- address that it came from
  op VARBINARY(32) NOT NULL,                -- the call: append, create key, …
  tenant VARBINARY(63) NOT NULL,            -- of the target; empty: none
  target VARBINARY(256) NOT NULL,           -- name of the budget, instance or key; empty: none
  request_id VARBINARY(128) NOT NULL,       -- the caller's; empty: none
  correlation_id VARBINARY(128) NOT NULL,   -- finds the call in the logs
  before_json MEDIUMBLOB,                   -- definition before; NULL: it did not exist
  after_json MEDIUMBLOB,                    -- definition after; NULL: it does not exist any more
  outcome VARBINARY(64) NOT NULL,           -- done, or the code of the error
  times BIGINT NOT NULL,                    -- how many equal refusals the row stands for, from 1
  hash VARBINARY(32) NOT NULL,              -- SHA-256 of the hash before it and of the columns above
  PRIMARY KEY (seq)
);

CREATE INDEX audit_log_time ON audit_log (at_ms);

-- Where the chain begins and ends. Each transaction that appends locks the row last.
CREATE TABLE audit_log_head (
  only_row BIGINT NOT NULL,                 -- always 1
  last_seq BIGINT NOT NULL,                 -- seq of the last row; 0: none yet
  last_hash VARBINARY(32) NOT NULL,         -- its hash; 32 zeros: none yet
  removed_seq BIGINT NOT NULL,              -- seq of the last row that was removed; 0: none
  removed_hash VARBINARY(32) NOT NULL,      -- its hash; 32 zeros: none
  PRIMARY KEY (only_row),
  CHECK (only_row = 1)
);
