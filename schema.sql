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
--   lock order   access_state, budget, deductions (with hold, extra, give_back), group, limit rows, epochs by (bucket, epoch),
--                feed, alert, sequence, webhook_endpoint, webhook_delivery, audit_log_head; within
--                each by primary key
--   T F U Q X O H S R  the letters of the accounting, docs/INVARIANTS.md:
--                T = F + U + sum of (O + H + S + R) + Q + X at every commit, every term at least 0
-- Only internal/sql/engine knows the differences between the engines.

-- Ids that budgetd hands out.
CREATE TABLE sequence (
  name VARBINARY(32) NOT NULL,              -- budget | bucket | alert
  next_id BIGINT NOT NULL,                  -- the next id to hand out, from 1
  PRIMARY KEY (name)
);

-- Facts about the whole database.
CREATE TABLE installation (
  only_row BIGINT NOT NULL,                 -- always 1
  installation_id VARBINARY(32) NOT NULL,   -- created with the database; part of every key in a store
  ring_version BIGINT NOT NULL,             -- format of the ring's hash and labels
  format BIGINT NOT NULL,                   -- 6; budgetd refuses any other
  created_ms BIGINT NOT NULL,               -- when the database was created
  PRIMARY KEY (only_row),
  CHECK (only_row = 1)
);

-- A budget: its definition, its total, and the units that no bucket holds.
CREATE TABLE budget_management_bucket (
  id BIGINT NOT NULL,                       -- number of the budget, from `sequence`
  tenant VARBINARY(63) NOT NULL,            -- the tenant; `default` unless named
  name VARBINARY(63) NOT NULL,              -- unique within the tenant; may be corrected
  gl_code VARBINARY(128) NOT NULL,          -- ledger account; may be empty
  unit VARBINARY(8) NOT NULL,               -- count | amount
  durability VARBINARY(8) NOT NULL,         -- ledger | store: what holds the truth
  on_loss VARBINARY(16) NOT NULL DEFAULT 'quarantine', -- store mode: quarantine | assume_unused
  unlimited BIGINT NOT NULL DEFAULT 0,      -- 1: no total; only limits bound deductions
  total_quantity BIGINT NOT NULL,           -- T, units; 0 for an unlimited budget
  unfunded_quantity BIGINT NOT NULL DEFAULT 0, -- F, units that no period has received
  undistributed_quantity BIGINT NOT NULL,   -- U, units of the open period that no bucket holds
  out_quantity BIGINT NOT NULL,             -- handed out, units: T - F - U - X
  quarantined_quantity BIGINT NOT NULL DEFAULT 0, -- Q, units of lost buckets in store mode
  forfeited_quantity BIGINT NOT NULL DEFAULT 0,   -- X, units that expired with their period
  pending_shrink_quantity BIGINT NOT NULL DEFAULT 0, -- store mode: units of pending shrinks; apply must not take them
  sharding_quantity BIGINT NOT NULL,        -- most units that one apply may take; 0: no bound
  bucket_quantity BIGINT NOT NULL,          -- number of buckets, 1 … 1,024
  adjust_cnt BIGINT NOT NULL,               -- how often one bucket may apply for units never handed out; 0: no bound
  type VARBINARY(8) NOT NULL,               -- promo | daily
  type_rule BLOB,                           -- application rule, JSON; NULL for promo
  status VARBINARY(12) NOT NULL,            -- pending | effective | paused | expired, up to 1 s late; decisions use the clock
  status_due_ms BIGINT NOT NULL DEFAULT 0,  -- when the clock next changes the status; 0: never
  is_paused BIGINT NOT NULL DEFAULT 0,      -- 1: an operator paused it
  is_archived BIGINT NOT NULL DEFAULT 0,    -- 1: it is over, and lists leave it out
  start_ms BIGINT NOT NULL,                 -- first instant at which units can be deducted
  end_ms BIGINT NOT NULL,                   -- first instant at which they no longer can
  timezone VARBINARY(64) NOT NULL DEFAULT '', -- IANA zone of periods; empty: UTC
  routing_dimension VARBINARY(256),         -- dimension whose value picks the bucket; NULL: the key
  unused VARBINARY(8) NOT NULL DEFAULT 'spread', -- spread | next | forfeit: destination of a period's unused units; whole: one period gets all
  late_refund VARBINARY(8) NOT NULL DEFAULT '', -- total | next | forfeit: destination of a refund after its period; empty: total
  period BIGINT NOT NULL DEFAULT 1,         -- number of the open or last period
  period_start_ms BIGINT NOT NULL DEFAULT 0, -- its first instant
  period_end_ms BIGINT NOT NULL DEFAULT 0,  -- the first instant after it
  is_over BIGINT NOT NULL DEFAULT 0,        -- 1: that period has ended and no other follows
  roll_over_ms BIGINT NOT NULL DEFAULT 0,   -- when a rollover is due; 0: never
  created_as MEDIUMBLOB NOT NULL,           -- the definition at its creation, canonical JSON
  version BIGINT NOT NULL,                  -- increases with each change of the definition or limits
  list_version BIGINT NOT NULL,             -- increases with each change of the bucket list and each new epoch
  limits_version BIGINT NOT NULL DEFAULT 0, -- increases with each change of the limits, and in store mode with each change of the definition
  overrides_version BIGINT NOT NULL DEFAULT 0, -- increases with each change of overrides
  next_run BIGINT NOT NULL DEFAULT 1,       -- number of the next row in recycle_run
  contraction_bound BIGINT NOT NULL DEFAULT 0, -- units that no more than one bucket is worth: so few were left when the service took buckets offline; 0: none is offline for that
  contracted_ms BIGINT NOT NULL DEFAULT 0,  -- when that was
  allocated_quantity BIGINT NOT NULL DEFAULT 0, -- A, units with its children: the sum of their totals
  parent_id BIGINT NOT NULL DEFAULT 0,      -- the budget that it was carved out of; 0: none
  parent_period BIGINT NOT NULL DEFAULT 0,  -- the period of the parent that its units belong to
  depth BIGINT NOT NULL DEFAULT 0,          -- how many ancestors it has, 0 … 7
  ancestors VARBINARY(160) NOT NULL DEFAULT '', -- their ids, from the first one on: /12/57/; empty: none
  also_charges VARBINARY(160) NOT NULL DEFAULT '', -- the budgets that each of its deductions is also taken from: their numbers, with a space between; empty: none
  charged_by BIGINT NOT NULL DEFAULT 0,     -- how many budgets name it in also_charges
  created_at BIGINT NOT NULL,               -- ms since 1970
  updated_at BIGINT NOT NULL,               -- when the definition last changed
  settle_due_ms BIGINT GENERATED ALWAYS AS (CASE WHEN parent_id > 0 AND unfunded_quantity + undistributed_quantity > 0 THEN end_ms ELSE 0 END) STORED, -- when what it has goes to its parent; 0: never
  has_undistributed BIGINT GENERATED ALWAYS AS (CASE WHEN undistributed_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: there are units to hand out
  PRIMARY KEY (id),
  UNIQUE (tenant, name),
  CHECK (total_quantity >= 0 AND total_quantity <= 9007199254740991),
  CHECK (undistributed_quantity >= 0 AND unfunded_quantity >= 0),
  CHECK (quarantined_quantity >= 0 AND forfeited_quantity >= 0 AND pending_shrink_quantity >= 0),
  CHECK (allocated_quantity >= 0 AND allocated_quantity <= out_quantity),
  CHECK (charged_by >= 0),
  CHECK (out_quantity = total_quantity - unfunded_quantity - undistributed_quantity - forfeited_quantity)
);
CREATE INDEX budget_management_bucket_roll_over ON budget_management_bucket (roll_over_ms);
CREATE INDEX budget_management_bucket_status ON budget_management_bucket (status_due_ms);
CREATE INDEX budget_management_bucket_parent ON budget_management_bucket (parent_id);
CREATE INDEX budget_management_bucket_settle ON budget_management_bucket (settle_due_ms);
CREATE INDEX budget_management_bucket_family ON budget_management_bucket (ancestors, id);
CREATE INDEX budget_management_bucket_units ON budget_management_bucket (has_undistributed);

-- A period of a budget: a pair of instants, and where its units went. A promo budget has one.
CREATE TABLE budget_period (
  budget_id BIGINT NOT NULL,                -- the budget
  number BIGINT NOT NULL,                   -- from 1
  start_ms BIGINT NOT NULL,                 -- first instant
  end_ms BIGINT NOT NULL,                   -- first instant after it
  funded_quantity BIGINT NOT NULL,          -- units received from F, less those returned while it was open
  carried_quantity BIGINT NOT NULL,         -- units that earlier periods passed to it
  before_quantity BIGINT NOT NULL,          -- units used between its start and its opening, if a changed rule opened it
  returned_quantity BIGINT NOT NULL,        -- units returned to F after its end
  passed_quantity BIGINT NOT NULL,          -- units passed to later periods
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
  instance VARBINARY(63) NOT NULL,          -- store mode: the instance it lives in, as configured; empty: ledger mode, it lives here
  partition_number BIGINT NOT NULL,         -- store mode: the partition of that instance, from 0
  out_quantity BIGINT NOT NULL,             -- units ever received by apply
  sharding_quantity BIGINT NOT NULL,        -- units of its latest grant
  out_cnt BIGINT NOT NULL,                  -- applies for units never handed out, since its last recycle
  collect_cnt BIGINT NOT NULL DEFAULT 0,    -- how often it got units of other buckets, since its last recycle
  status VARBINARY(8) NOT NULL,             -- online | offline
  offline_by VARBINARY(8) NOT NULL,         -- operator | service | resize (retired); empty while online
  epoch BIGINT NOT NULL,                    -- number of its newest epoch, the only one that may be live
  copied_epoch BIGINT NOT NULL DEFAULT 0,   -- store mode: the closed epoch that was copied to the present partition; 0: never moved
  created_at BIGINT NOT NULL,               -- ms since 1970
  updated_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (id),
  UNIQUE (budget_id, ordinal)
);
CREATE INDEX sharding_budget_management_bucket_partition ON sharding_budget_management_bucket (instance, partition_number, id);

-- The life of a bucket from online to offline, within one period. Its row lock is the bucket's lock
-- across all nodes.
CREATE TABLE bucket_epoch (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- from 1, increasing
  budget_id BIGINT NOT NULL,                -- the budget
  status VARBINARY(8) NOT NULL,             -- open | closed; in store mode also opening | closing | lost
  period BIGINT NOT NULL,                   -- number of the budget's period that its units are of
  period_end_ms BIGINT NOT NULL,            -- first instant without deductions; 0: no end
  definition_version BIGINT NOT NULL,       -- the budget's version; a decision by an older one is repeated
  outstanding_quantity BIGINT NOT NULL,     -- O, units granted and neither used, held nor given back
  held_quantity BIGINT NOT NULL,            -- H, units of holds
  used_quantity BIGINT NOT NULL,            -- S, units of deductions
  returning_quantity BIGINT NOT NULL,       -- R, units on their way back to the total
  late_quantity BIGINT NOT NULL DEFAULT 0,  -- the part of R that was used when its period ended
  closed_quantity BIGINT NOT NULL,          -- units that left O unused: offline, recycle, collect, shrink, loss
  swept_quantity BIGINT NOT NULL,           -- units ever moved out of R
  next_grant BIGINT NOT NULL,               -- number of the next grant, from 1
  next_entry BIGINT NOT NULL,               -- number of the bucket's next feed entry, from 1; continues from epoch to epoch
  incarnation BIGINT NOT NULL DEFAULT 0,    -- store mode: the partition's incarnation under which it was opened
  taken_quantity BIGINT NOT NULL DEFAULT 0, -- store mode: units ever taken, as of the last sync
  given_back_quantity BIGINT NOT NULL DEFAULT 0, -- store mode: units ever given back into the balance, as of the last sync
  late_sum_quantity BIGINT NOT NULL DEFAULT 0, -- store mode: units given back after the epoch, as of the last sync
  halted VARBINARY(512) NOT NULL,           -- why its units must not move; empty: they may
  has_units BIGINT GENERATED ALWAYS AS (CASE WHEN outstanding_quantity + returning_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: counts in the sum of units left
  has_returns BIGINT GENERATED ALWAYS AS (CASE WHEN returning_quantity > 0 THEN 1 ELSE 0 END) STORED, -- 1: a sweep moves units to the total
  is_unfinished BIGINT GENERATED ALWAYS AS (CASE WHEN status = 'opening' OR status = 'closing' THEN 1 ELSE 0 END) STORED, -- 1: store mode: its transition must be completed
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (bucket_id, epoch),
  CHECK (outstanding_quantity >= 0 AND held_quantity >= 0 AND used_quantity >= 0),
  CHECK (returning_quantity >= late_quantity AND late_quantity >= 0),
  CHECK (closed_quantity >= 0 AND swept_quantity >= 0)
);
CREATE INDEX bucket_epoch_units ON bucket_epoch (budget_id, has_units);
CREATE INDEX bucket_epoch_returns ON bucket_epoch (has_returns, budget_id);
CREATE INDEX bucket_epoch_unfinished ON bucket_epoch (is_unfinished);

-- One numbered movement of units into a bucket: apply, distribute, recycle, collect.
CREATE TABLE grant_log (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- the epoch that got the units
  number BIGINT NOT NULL,                   -- from 1, without gaps
  budget_id BIGINT NOT NULL,                -- the budget
  kind VARBINARY(8) NOT NULL,               -- apply (units never handed out before) | again (units that came back) | collect
  amount BIGINT NOT NULL,                   -- units
  status VARBINARY(8) NOT NULL,             -- done; store mode: pending until the store has it | void (its epoch ended before)
  created_at BIGINT NOT NULL,               -- ms since 1970
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
  created_at BIGINT NOT NULL,               -- ms since 1970
  updated_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, request_id)
);
CREATE INDEX adjustment_status ON adjustment (status);

-- Ledger mode: one row per deduction, without a secondary index or rarely used columns. Holds and
-- refunds have rows in `hold` and `give_back`. A set has a row for each of its legs, in its budget, and
-- its owner, whose note lists them: a row of budget 0, with the tenant, x'00' and the caller's id.
CREATE TABLE deduction (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(192) NOT NULL,       -- the caller's, byte by byte; of a leg: x'02' and the caller's
  bucket_id BIGINT NOT NULL,                -- the bucket; 0: a tombstone, the id was cancelled, or the owner of a set
  epoch BIGINT NOT NULL,                    -- its epoch; 0 for a tombstone
  amount BIGINT NOT NULL,                   -- units; 0 for a tombstone
  fingerprint VARBINARY(16) NOT NULL,       -- hash of the request with a format number; empty for a tombstone
  nonce VARBINARY(8) NOT NULL,              -- of the call whose attempt was committed
  counted_at BIGINT NOT NULL,               -- SQL's time of the commit
  note BLOB,                                -- reference, dimensions, counts, who deducted, for whom the id is void, legs; NULL: none
  PRIMARY KEY (budget_id, request_id),
  CHECK (amount >= 0)
);

-- Deductions that are or were holds.
CREATE TABLE hold (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(192) NOT NULL,       -- of the deduction
  state VARBINARY(12) NOT NULL,             -- held | used (confirmed) | expired | rolled_back
  hold_group VARBINARY(192),                -- holds confirmed together; NULL: it belongs to no group
  hold_until_ms BIGINT NOT NULL,            -- when it expires, or would have expired
  due_ms BIGINT,                            -- the same while it is held; NULL afterwards
  confirmed BIGINT NOT NULL DEFAULT 0,      -- units that became used, of what was held and above it
  used BIGINT NOT NULL DEFAULT 0,           -- what of them is left; what is held is the rest of the deduction and its extras
  asked BIGINT NOT NULL DEFAULT 0,          -- units that its confirm asked for
  above VARBINARY(12) NOT NULL DEFAULT 'refuse', -- refuse | available: what a confirm above the hold does
  expires_as VARBINARY(8) NOT NULL DEFAULT 'released', -- released | used: what its expiry does with what is held
  expired BIGINT NOT NULL DEFAULT 0,        -- units that were held when it expired; 0: it has not expired
  extra BIGINT NOT NULL DEFAULT 0,          -- units that were taken later: the sum of its rows of extra
  uncollected BIGINT NOT NULL DEFAULT 0,    -- units that were used above the hold and that the budget did not have
  late BIGINT NOT NULL DEFAULT 0,           -- 1: it was confirmed after it had expired
  step BIGINT NOT NULL DEFAULT 0,           -- number of its last renewal; 0: none
  step_print VARBINARY(64) NOT NULL DEFAULT '', -- what that asked for, which a repeat must equal
  step_used BIGINT NOT NULL DEFAULT 0,      -- units that had become used in all
  step_held BIGINT NOT NULL DEFAULT 0,      -- units that were held after it
  step_final BIGINT NOT NULL DEFAULT 0,     -- 1: fewer than it asked for
  over_limit BIGINT NOT NULL DEFAULT 0,     -- 1: a limit would have refused what it took above the hold
  bucket_id BIGINT NOT NULL,                -- of the deduction
  epoch BIGINT NOT NULL,                    -- of the deduction
  PRIMARY KEY (budget_id, request_id),
  CHECK (confirmed >= 0 AND used >= 0 AND asked >= 0 AND extra >= 0 AND uncollected >= 0 AND expired >= 0)
);
CREATE INDEX hold_due ON hold (due_ms);
CREATE INDEX hold_of_group ON hold (budget_id, hold_group);

-- Groups of holds. Adding a member and closing the group lock its row.
CREATE TABLE group_of_holds (
  budget_id BIGINT NOT NULL,                -- the budget
  hold_group VARBINARY(192) NOT NULL,       -- the caller's name for it
  state VARBINARY(12) NOT NULL,             -- open | used | rolled_back, set by the first confirm or rollback
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, hold_group)
);

-- Units that a deduction took later: above its hold, after its expiry, or with a renewal. They may lie in another bucket and epoch.
CREATE TABLE extra (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(192) NOT NULL,       -- of the deduction
  number BIGINT NOT NULL,                   -- from 1, per deduction
  bucket_id BIGINT NOT NULL,                -- the bucket that gave them
  epoch BIGINT NOT NULL,                    -- its epoch
  amount BIGINT NOT NULL,                   -- units
  back_quantity BIGINT NOT NULL DEFAULT 0,  -- units of it that came back: the sum of its rows of give_back
  used_quantity BIGINT NOT NULL DEFAULT 0,  -- units of it that are used; the rest of those that did not come back is held
  is_late BIGINT NOT NULL DEFAULT 0,        -- 1: of a confirm after the expiry; limits count it as a deduction
  created_at BIGINT NOT NULL,               -- when limits count it: SQL's time of the commit
  PRIMARY KEY (budget_id, request_id, number),
  CHECK (amount > 0 AND back_quantity >= 0 AND used_quantity >= 0 AND back_quantity + used_quantity <= amount)
);

-- Units of a deduction that came back: rollbacks, and the ends of holds.
CREATE TABLE give_back (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(192) NOT NULL,       -- of the deduction
  kind VARBINARY(8) NOT NULL,               -- rollback | confirm | expire | release (of a renewal)
  rollback_id VARBINARY(128) NOT NULL,      -- the caller's; empty: the whole, confirm; of a release its step, of expire the last step
  number BIGINT NOT NULL DEFAULT 0,         -- 0: what the deduction took first; else its row of extra
  amount BIGINT NOT NULL,                   -- units given back; 0: a hold was confirmed in full
  is_whole BIGINT NOT NULL,                 -- 1: the caller asked for all that was left, or held
  is_direct BIGINT NOT NULL,                -- 1: into O of the open epoch; 0: into R
  bucket_id BIGINT NOT NULL,                -- of the deduction, or of the extra
  epoch BIGINT NOT NULL,                    -- of the deduction, or of the extra
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, request_id, kind, rollback_id, number),
  CHECK (amount >= 0)
);

-- The change feed: one row per flight and bucket, with its entries packed by package ledger. Entries are
-- numbered per bucket from 1, across epochs, in commit order and without gaps.
CREATE TABLE feed (
  bucket_id BIGINT NOT NULL,                -- the bucket
  first_entry BIGINT NOT NULL,              -- number of its first entry
  entries BIGINT NOT NULL,                  -- how many entries it has
  units BIGINT NOT NULL,                    -- units deducted less units given back; may be negative
  body MEDIUMBLOB NOT NULL,                 -- the entries
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (bucket_id, first_entry)
);

-- The dimensions of deductions, one row each, and again at the time of each extra. It answers how much a value took in any span, and gives a
-- changed limit its true count.
CREATE TABLE deduction_value (
  budget_id BIGINT NOT NULL,                -- the budget
  dimension VARBINARY(256) NOT NULL,        -- the caller's name for it
  value VARBINARY(256) NOT NULL,            -- its value
  counted_at BIGINT NOT NULL,               -- the deduction's, or created_at of its extras
  request_id VARBINARY(192) NOT NULL,       -- of the deduction
  PRIMARY KEY (budget_id, dimension, value, counted_at, request_id)
);

-- Limits of a budget.
CREATE TABLE budget_limit (
  budget_id BIGINT NOT NULL,                -- the budget
  name VARBINARY(63) NOT NULL,              -- unique within the budget
  definition MEDIUMBLOB NOT NULL,           -- JSON in the form of the API, without overrides
  ordinal BIGINT NOT NULL,                  -- its position among the budget's limits, from 0
  changed_version BIGINT NOT NULL,          -- limits_version at the last change of what it counts
  changed_ms BIGINT NOT NULL,               -- time of that change
  override_count BIGINT NOT NULL DEFAULT 0, -- how many rows of limit_override it has
  override_series BIGINT NOT NULL DEFAULT 0, -- identifies these rows; 0: it never had any
  PRIMARY KEY (budget_id, name),
  CHECK (override_count >= 0)
);

-- Maximums of single values of a limit. A limit whose overrides are all replaced, or whose dimension
-- changes, gets another series; the rows of the former one are removed later.
CREATE TABLE limit_override (
  budget_id BIGINT NOT NULL,                -- the budget
  series BIGINT NOT NULL,                   -- override_series of the limit
  value VARBINARY(512) NOT NULL,            -- the value, as in limit_counter
  long_value VARBINARY(1040),               -- combined values whose hash value is; NULL: value is no hash
  max_quantity BIGINT NOT NULL,             -- most per window, in calls or minor units; 0 if exempt
  is_exempt BIGINT NOT NULL,                -- 1: the value has no maximum
  version BIGINT NOT NULL,                  -- overrides_version of the budget at its last change
  PRIMARY KEY (budget_id, series, value),
  CHECK (max_quantity >= 0)
);
CREATE INDEX limit_override_version ON limit_override (budget_id, version);

-- Store mode: the overrides that the last changes have removed, from which nodes learn it.
CREATE TABLE limit_override_removed (
  budget_id BIGINT NOT NULL,                -- the budget
  version BIGINT NOT NULL,                  -- overrides_version after the change
  series BIGINT NOT NULL,                   -- of the override
  value VARBINARY(512) NOT NULL,            -- of the override
  PRIMARY KEY (budget_id, version, series, value)
);

-- Series of overrides that no limit has any more. Their rows are removed in steps, and then this row.
CREATE TABLE limit_override_series (
  budget_id BIGINT NOT NULL,                -- the budget
  series BIGINT NOT NULL,                   -- of limit_override
  gone_ms BIGINT NOT NULL,                  -- when the limit lost it
  PRIMARY KEY (budget_id, series)
);
CREATE INDEX limit_override_series_gone ON limit_override_series (gone_ms);

-- Ledger mode: the counts of limits for one value of a dimension, all windows of all its limits in one
-- row, packed by package limit. A write is conditional on the version that was read.
CREATE TABLE limit_counter (
  budget_id BIGINT NOT NULL,                -- the budget
  dimension VARBINARY(256) NOT NULL,        -- the limits' dimension; combined ones as in the definition
  value VARBINARY(1024) NOT NULL,           -- its value; combined ones length-prefixed, long ones hashed
  version BIGINT NOT NULL,                  -- increases by one with each write
  counts MEDIUMBLOB NOT NULL,               -- the windows
  expires_ms BIGINT NOT NULL,               -- when the row may be removed; 0: never
  PRIMARY KEY (budget_id, dimension, value),
  CHECK (version > 0)
);
CREATE INDEX limit_counter_expires ON limit_counter (expires_ms);

-- Store mode: partitions and their verified memory. Ledger mode: which partitions are drained.
CREATE TABLE store_partition (
  instance VARBINARY(63) NOT NULL,          -- the instance, as configured
  partition_number BIGINT NOT NULL,         -- number of the partition within it, from 0
  identity VARBINARY(512) NOT NULL,         -- verified run id, replication id and role; empty: never reached
  incarnation BIGINT NOT NULL,              -- increases when the memory may no longer be the known one
  since_incarnation BIGINT NOT NULL,        -- first incarnation of this memory without a gap since
  is_draining BIGINT NOT NULL DEFAULT 0,    -- 1: its buckets move away, and no epoch begins on it
  began_at BIGINT NOT NULL,                 -- when the present incarnation began
  synced_at BIGINT NOT NULL DEFAULT 0,      -- when its last sync finished
  cause VARBINARY(512) NOT NULL DEFAULT '', -- why the present incarnation began
  PRIMARY KEY (instance, partition_number)
);

-- Nodes that use this database, for display. A row is removed 30 days after its node was last seen.
CREATE TABLE node (
  name VARBINARY(256) NOT NULL,             -- node.name
  address VARBINARY(256) NOT NULL,          -- where it listens, host:port
  version VARBINARY(128) NOT NULL,          -- of budgetd
  zone_release VARBINARY(16) NOT NULL,      -- release of its time zones, such as 2025c
  started_ms BIGINT NOT NULL,               -- when it started
  seen_ms BIGINT NOT NULL,                  -- when it last refreshed the row
  PRIMARY KEY (name)
);

-- Store mode: the units of an epoch when its store lost its memory.
CREATE TABLE quarantine (
  bucket_id BIGINT NOT NULL,                -- the bucket
  epoch BIGINT NOT NULL,                    -- the epoch
  budget_id BIGINT NOT NULL,                -- the budget
  instance VARBINARY(63) NOT NULL,          -- the epoch's instance
  partition_number BIGINT NOT NULL,         -- the partition of that instance
  quantity BIGINT NOT NULL,                 -- units put into quarantine
  released_quantity BIGINT NOT NULL,        -- units released since
  is_held BIGINT GENERATED ALWAYS AS (CASE WHEN quantity > released_quantity THEN 1 ELSE 0 END) STORED, -- 1: units are in quarantine
  cause VARBINARY(512) NOT NULL,            -- why the number sold is unknown
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (bucket_id, epoch),
  CHECK (quantity > 0 AND released_quantity >= 0 AND released_quantity <= quantity)
);
CREATE INDEX quarantine_budget ON quarantine (budget_id, bucket_id, epoch);
CREATE INDEX quarantine_held ON quarantine (is_held);

-- Store mode: units released from quarantine by an operator.
CREATE TABLE quarantine_release (
  budget_id BIGINT NOT NULL,                -- the budget
  request_id VARBINARY(128) NOT NULL,       -- the operator's
  bucket_id BIGINT NOT NULL,                -- of the quarantine
  epoch BIGINT NOT NULL,                    -- of the quarantine
  quantity BIGINT NOT NULL,                 -- units released
  goes_to VARBINARY(8) NOT NULL,            -- total (they were not sold) | used (they were)
  asked_quantity BIGINT NOT NULL,           -- units requested in total; 0: all that was held
  reason VARBINARY(512) NOT NULL,           -- why, in the operator's words
  released_by VARBINARY(128) NOT NULL,      -- who decided
  created_at BIGINT NOT NULL,               -- ms since 1970
  PRIMARY KEY (budget_id, request_id, bucket_id, epoch),
  CHECK (quantity > 0)
);

-- Recycles, each with its report.
CREATE TABLE recycle_run (
  budget_id BIGINT NOT NULL,                -- the budget
  number BIGINT NOT NULL,                   -- from 1, per budget
  cause VARBINARY(12) NOT NULL,             -- operator | schedule | automatic
  buckets BIGINT NOT NULL,                  -- how many buckets it recycled
  buckets_skipped BIGINT NOT NULL,          -- how many buckets could not be recycled
  moved BIGINT NOT NULL,                    -- units returned to the total
  units_before BIGINT NOT NULL,             -- U and O when it began, units
  stranded_before BIGINT NOT NULL,          -- the stranded part of them, units
  units_after BIGINT NOT NULL,              -- U and O when it ended, units
  stranded_after BIGINT NOT NULL,           -- the stranded part of them, units
  created_at BIGINT NOT NULL,               -- when it began, ms since 1970
  ended_at BIGINT NOT NULL,                 -- ms since 1970
  PRIMARY KEY (budget_id, number)
);

-- A budget's figures over time: one row per minute in which something changed.
CREATE TABLE budget_sample (
  budget_id BIGINT NOT NULL,                -- the budget
  at_ms BIGINT NOT NULL,                    -- beginning of the minute that it shows
  total_quantity BIGINT NOT NULL,           -- T, units
  undistributed_quantity BIGINT NOT NULL,   -- U, units
  not_funded_quantity BIGINT NOT NULL,      -- F, units
  quarantined_quantity BIGINT NOT NULL,     -- Q, units
  forfeited_quantity BIGINT NOT NULL,       -- X, units
  in_buckets_quantity BIGINT NOT NULL,      -- O of the open epochs, units
  in_transit_quantity BIGINT NOT NULL,      -- R of all epochs, O of opening and closing ones, units
  held_quantity BIGINT NOT NULL,            -- H of all epochs, units
  used_quantity BIGINT NOT NULL,            -- S of all epochs, units
  remaining_quantity BIGINT NOT NULL,       -- units that deductions could take
  stranded_quantity BIGINT NOT NULL,        -- units in buckets out of reach or halted, and fragments
  PRIMARY KEY (budget_id, at_ms)
);
CREATE INDEX budget_sample_at ON budget_sample (at_ms);

-- Thresholds of budgets that have their own.
CREATE TABLE alert_threshold (
  budget_id BIGINT NOT NULL,                -- the budget
  thresholds MEDIUMBLOB NOT NULL,           -- JSON list in the form of the API; []: none
  changed_ms BIGINT NOT NULL,               -- when they last changed
  PRIMARY KEY (budget_id)
);

-- Thresholds that were crossed. A row fires and is resolved once (package alert).
CREATE TABLE alert (
  budget_id BIGINT NOT NULL,                -- the budget
  threshold VARBINARY(512) NOT NULL,        -- its name, such as used_share/total/80
  period BIGINT NOT NULL,                   -- number of the budget's period; 0: the threshold has none
  episode BIGINT NOT NULL,                  -- from 1: how often it was crossed in that period
  id BIGINT NOT NULL,                       -- number of the alert, from `sequence`
  told_by BIGINT NOT NULL,                  -- the alert whose message lists this one; its own id: it had a message
  total_quantity BIGINT NOT NULL,           -- units of the threshold when it fired
  spent_quantity BIGINT NOT NULL,           -- units used and held when it fired
  left_quantity BIGINT NOT NULL,            -- units that could still be deducted when it fired
  fired_ms BIGINT NOT NULL,                 -- when it began to fire
  resolved_ms BIGINT NOT NULL,              -- when it was resolved; 0: it is firing
  reason VARBINARY(32) NOT NULL,            -- why it was resolved: total_raised | rolled_over | …; empty: it is firing
  is_firing BIGINT GENERATED ALWAYS AS (CASE WHEN resolved_ms = 0 THEN 1 ELSE 0 END) STORED, -- 1: it is firing
  PRIMARY KEY (budget_id, threshold, period, episode),
  UNIQUE (id)
);
CREATE INDEX alert_firing ON alert (is_firing, budget_id);
CREATE INDEX alert_resolved ON alert (resolved_ms);

-- Where messages are sent. Secrets are in files.
CREATE TABLE webhook_endpoint (
  id VARBINARY(32) NOT NULL,                -- ep_ and random letters
  tenant VARBINARY(63) NOT NULL,            -- the only tenant whose messages it gets; empty: all
  url VARBINARY(2048) NOT NULL,             -- of http or https
  secret VARBINARY(63) NOT NULL,            -- name of a file in its tenant's folder of webhooks.secrets_dir
  types BLOB,                               -- types of messages, JSON list; NULL: all
  description VARBINARY(256) NOT NULL,      -- in the operator's words
  disabled VARBINARY(16) NOT NULL,          -- operator | failing | gone: why it gets nothing; empty: it is enabled
  failing_since_ms BIGINT NOT NULL,         -- first failed attempt since the last success; 0: none
  created_ms BIGINT NOT NULL,               -- when it was created
  created_by VARBINARY(128) NOT NULL,       -- principal that created it
  PRIMARY KEY (id)
);
CREATE INDEX webhook_endpoint_tenant ON webhook_endpoint (tenant);

-- The outbox: messages, each written in the transaction of its cause.
CREATE TABLE webhook_message (
  id VARBINARY(40) NOT NULL,                -- webhook-id: msg_, the time and random letters; increasing with time
  tenant VARBINARY(63) NOT NULL,            -- whose it is; empty: all tenants'
  type VARBINARY(32) NOT NULL,              -- alert.firing | alert.resolved | endpoint.disabled | test
  body MEDIUMBLOB NOT NULL,                 -- JSON, as it is sent and signed
  created_ms BIGINT NOT NULL,               -- when it was written
  PRIMARY KEY (id)
);
CREATE INDEX webhook_message_created ON webhook_message (created_ms);

-- Deliveries of messages to endpoints, with their outcomes.
CREATE TABLE webhook_delivery (
  endpoint_id VARBINARY(32) NOT NULL,       -- the endpoint
  message_id VARBINARY(40) NOT NULL,        -- the message
  state VARBINARY(12) NOT NULL,             -- pending | delivered | failed
  tries BIGINT NOT NULL,                    -- attempts since it was sent, or sent again
  due_ms BIGINT,                            -- when the next attempt begins; NULL: none does
  attempts MEDIUMBLOB NOT NULL,             -- the last 16 attempts, JSON list
  PRIMARY KEY (endpoint_id, message_id)
);
CREATE INDEX webhook_delivery_due ON webhook_delivery (endpoint_id, due_ms);
CREATE INDEX webhook_delivery_message ON webhook_delivery (message_id);

-- API keys. The secret is not stored, only its SHA-256.
CREATE TABLE access_key (
  key_id VARBINARY(10) NOT NULL,            -- public part of the key
  secret_hash VARBINARY(32) NOT NULL,       -- SHA-256 of its secret
  principal VARBINARY(128) NOT NULL,        -- its holder
  role VARBINARY(16) NOT NULL,              -- read | deduct | rollback | operator | admin | delegate
  tenant VARBINARY(63) NOT NULL,            -- its only tenant; empty: all
  budgets BLOB,                             -- patterns of names, JSON list; NULL: all budgets
  subtree_id BIGINT NOT NULL DEFAULT 0,     -- of a delegate: the budget at the top of its subtree; 0: none
  created_ms BIGINT NOT NULL,               -- when it was issued
  created_by VARBINARY(128) NOT NULL,       -- principal that issued it
  expires_ms BIGINT NOT NULL DEFAULT 0,     -- first instant at which it is refused; 0: never
  last_used_ms BIGINT NOT NULL DEFAULT 0,   -- hour of its last use; 0: unused
  revoked_ms BIGINT NOT NULL DEFAULT 0,     -- when it was revoked; 0: not revoked
  version BIGINT NOT NULL,                  -- access_state.version of its last change
  PRIMARY KEY (key_id)
);

CREATE INDEX access_key_principal ON access_key (tenant, principal);

CREATE INDEX access_key_version ON access_key (version, key_id);

-- The version of all keys, by which nodes detect changes. A transaction that changes keys locks it first.
CREATE TABLE access_state (
  only_row BIGINT NOT NULL,                 -- always 1
  version BIGINT NOT NULL,                  -- increases by one with each change of keys
  PRIMARY KEY (only_row),
  CHECK (only_row = 1)
);

-- The audit log: who did what. Rows are appended in the transaction of their effect and form a hash
-- chain (package auditlog). Rows never change; only audit_log.keep removes them, the oldest first.
CREATE TABLE audit_log (
  seq BIGINT NOT NULL,                      -- 1, 2, 3 … without gaps, in the order of the commits
  at_ms BIGINT NOT NULL,                    -- when the call was made
  principal VARBINARY(128) NOT NULL,        -- who made it; empty: not authenticated
  key_id VARBINARY(10) NOT NULL,            -- with which key; empty: without one
  source VARBINARY(64) NOT NULL,            -- the caller's address
  op VARBINARY(32) NOT NULL,                -- the call: append, create key, …
  tenant VARBINARY(63) NOT NULL,            -- of the target; empty: none
  target VARBINARY(256) NOT NULL,           -- name of the budget, instance or key; empty: none
  request_id VARBINARY(128) NOT NULL,       -- the caller's; empty: none
  correlation_id VARBINARY(128) NOT NULL,   -- finds the call in the logs
  before_json MEDIUMBLOB,                   -- definition before; NULL: it did not exist
  after_json MEDIUMBLOB,                    -- definition after; NULL: it no longer exists
  outcome VARBINARY(64) NOT NULL,           -- done, or the code of the error
  times BIGINT NOT NULL,                    -- number of equal refusals, from 1
  hash VARBINARY(32) NOT NULL,              -- links the columns above to the row before: package auditlog
  PRIMARY KEY (seq)
);

CREATE INDEX audit_log_time ON audit_log (at_ms);
-- The filters of the log, each in its order. Of several, SQLite takes the index that comes last here.
CREATE INDEX audit_log_tenant ON audit_log (tenant, seq);
CREATE INDEX audit_log_op ON audit_log (op, seq);
CREATE INDEX audit_log_principal ON audit_log (principal, seq);
CREATE INDEX audit_log_target ON audit_log (target, seq);

-- The ends of the chain. A transaction that appends locks the row last.
CREATE TABLE audit_log_head (
  only_row BIGINT NOT NULL,                 -- always 1
  last_seq BIGINT NOT NULL,                 -- seq of the last row; 0: none yet
  last_hash VARBINARY(32) NOT NULL,         -- its hash; 32 zero bytes: none yet
  removed_seq BIGINT NOT NULL,              -- seq of the last row that was removed; 0: none
  removed_hash VARBINARY(32) NOT NULL,      -- its hash; 32 zero bytes: none
  PRIMARY KEY (only_row),
  CHECK (only_row = 1)
);
