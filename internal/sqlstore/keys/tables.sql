-- API keys. The secret of a key is nowhere: only its SHA-256 is kept.
CREATE TABLE access_key (
  key_id VARBINARY(10) NOT NULL,            -- public part of the key
  secret_hash VARBINARY(32) NOT NULL,       -- SHA-256 of its secret
  principal VARBINARY(128) NOT NULL,        -- whose it is
  role VARBINARY(16) NOT NULL,              -- read | deduct | rollback | operator | admin
  tenant VARBINARY(63) NOT NULL,            -- the only tenant it is for; empty: all of them
  budgets BLOB,                             -- patterns of names, JSON list; NULL: all budgets
  created_ms BIGINT NOT NULL,
  created_by VARBINARY(128) NOT NULL,       -- principal that issued it
  expires_ms BIGINT NOT NULL DEFAULT 0,     -- first instant at which it is refused; 0: never
  last_used_ms BIGINT NOT NULL DEFAULT 0,   -- the hour of its last use; 0: not used yet
  revoked_ms BIGINT NOT NULL DEFAULT 0,     -- when it was revoked; 0: it is not
  PRIMARY KEY (key_id)
);

CREATE INDEX access_key_principal ON access_key (tenant, principal);

-- Tells nodes that keys have changed. The row is locked, first of all locks, by each transaction that changes keys.
CREATE TABLE access_state (
  only_row BIGINT NOT NULL,                 -- always 1
  version BIGINT NOT NULL,                  -- goes up by one with each change of keys
  PRIMARY KEY (only_row),
  CHECK (only_row = 1)
);
