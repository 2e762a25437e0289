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

-- Where the chain begins and ends. The row is locked, last of all locks, by each transaction that appends.
CREATE TABLE audit_log_head (
  only_row BIGINT NOT NULL,                 -- always 1
  last_seq BIGINT NOT NULL,                 -- seq of the last row; 0: none yet
  last_hash VARBINARY(32) NOT NULL,         -- its hash; 32 zeros: none yet
  removed_seq BIGINT NOT NULL,              -- seq of the last row that was removed; 0: none
  removed_hash VARBINARY(32) NOT NULL,      -- its hash; 32 zeros: none
  PRIMARY KEY (only_row),
  CHECK (only_row = 1)
);
