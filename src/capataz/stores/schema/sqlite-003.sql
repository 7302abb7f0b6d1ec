-- Accounts. What each may spend: `whose` is all, tenant, user or agent, `name` which one or * for each. Money, here and
-- below, is a whole number of ten-billionths of a dollar; NULL is no limit, and in a reservation a price not known.
CREATE TABLE allowance (
  whose TEXT NOT NULL,
  name TEXT NOT NULL,
  period TEXT NOT NULL,
  tokens INTEGER,
  money INTEGER,
  PRIMARY KEY (whose, name, period)
) WITHOUT ROWID;

-- A model call under way, keyed by the place of its start in its log: written by the transaction that writes the start,
-- taken away by the one that writes the end. After `until` it is spent in full: nobody will write its end any more.
CREATE TABLE reservation (
  run TEXT NOT NULL,
  seq INTEGER NOT NULL,
  root TEXT NOT NULL,
  agent TEXT NOT NULL,
  tenant TEXT NOT NULL,
  person TEXT NOT NULL,
  source TEXT NOT NULL,
  at REAL NOT NULL,
  until REAL NOT NULL,
  tokens INTEGER NOT NULL,
  money INTEGER,
  PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE INDEX reservation_until ON reservation (until);

-- What was spent, by account, period and source. `whose` is all, run, tenant, user or agent; `bucket` is total, a month or
-- a day. `unpriced` calls have no known price, `guessed` ones were charged as reserved, `surplus` ones used more than that.
CREATE TABLE spent (
  whose TEXT NOT NULL,
  name TEXT NOT NULL,
  bucket TEXT NOT NULL,
  source TEXT NOT NULL,
  calls INTEGER NOT NULL,
  input INTEGER NOT NULL,
  output INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  money INTEGER NOT NULL,
  unpriced INTEGER NOT NULL,
  guessed INTEGER NOT NULL,
  surplus INTEGER NOT NULL,
  PRIMARY KEY (whose, name, bucket, source)
) WITHOUT ROWID;

-- Conversations: `run` has it until `until`; `unsettled` is a run that was given up while it had it and whose log was not
-- read yet. The messages before position `upto` are held by `summary`. `positions` is the next one.
CREATE TABLE conversation (
  id INTEGER PRIMARY KEY,
  conversation TEXT NOT NULL UNIQUE,
  agent TEXT NOT NULL,
  tenant TEXT NOT NULL,
  person TEXT NOT NULL,
  created_at REAL NOT NULL,
  changed_at REAL NOT NULL,
  run TEXT,
  until REAL NOT NULL DEFAULT 0,
  unsettled TEXT,
  positions INTEGER NOT NULL DEFAULT 0,
  upto INTEGER NOT NULL DEFAULT 0,
  summary BLOB NOT NULL DEFAULT x''
);
CREATE INDEX conversation_changed_at ON conversation (changed_at);

-- What was said. A message without a position still waits for its run; `until` is how long somebody promised to wait for
-- it (a message of the queue waits as long as its job). Texts are bytes, as they were written or encrypted.
CREATE TABLE message (
  id INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL REFERENCES conversation (id),
  position INTEGER,
  role TEXT NOT NULL,
  run TEXT NOT NULL,
  at REAL NOT NULL,
  until REAL NOT NULL DEFAULT 0,
  body BLOB NOT NULL,
  UNIQUE (conversation, position),
  UNIQUE (run, role)
);
CREATE INDEX message_waiting ON message (conversation, id) WHERE position IS NULL;

-- Effects that runs of a conversation made or may have made: a JSON list of keys for each run.
CREATE TABLE receipt (
  conversation INTEGER NOT NULL REFERENCES conversation (id),
  run TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (conversation, run)
) WITHOUT ROWID;

-- On whose behalf a submitted run is made, beside its tenant.
ALTER TABLE job ADD COLUMN person TEXT NOT NULL DEFAULT '';
