-- Accounts. What each may spend: `whose` is all, tenant, user or agent, `name` which one or * for each. Money, here and
-- below, is a whole number of ten-billionths of a dollar; NULL is no limit, and in a reservation a price not known.
CREATE TABLE allowance (
  whose text NOT NULL,
  name text NOT NULL,
  period text NOT NULL,
  tokens bigint,
  money bigint,
  PRIMARY KEY (whose, name, period)
);

-- A model call under way, keyed by the place of its start in its log: written by the transaction that writes the start,
-- taken away by the one that writes the end. After `until` it is spent in full: nobody will write its end any more.
CREATE TABLE reservation (
  run text NOT NULL,
  seq integer NOT NULL,
  root text NOT NULL,
  agent text NOT NULL,
  tenant text NOT NULL,
  person text NOT NULL,
  source text NOT NULL,
  at double precision NOT NULL,
  until double precision NOT NULL,
  tokens bigint NOT NULL,
  money bigint,
  PRIMARY KEY (run, seq)
);
CREATE INDEX reservation_until ON reservation (until);

-- What was spent, by account, period and source. `whose` is all, run, tenant, user or agent; `bucket` is total, a month or
-- a day. `unpriced` calls have no known price, `guessed` ones were charged as reserved, `surplus` ones used more than that.
-- An account is the sum of its slots: with one row each, all machines would wait for one another at the row of the store.
CREATE TABLE spent (
  whose text NOT NULL,
  name text NOT NULL,
  bucket text NOT NULL,
  source text NOT NULL,
  slot integer NOT NULL DEFAULT pg_backend_pid() % 16,
  calls bigint NOT NULL,
  input bigint NOT NULL,
  output bigint NOT NULL,
  cache_read bigint NOT NULL,
  cache_write bigint NOT NULL,
  reasoning bigint NOT NULL,
  money bigint NOT NULL,
  unpriced bigint NOT NULL,
  guessed bigint NOT NULL,
  surplus bigint NOT NULL,
  PRIMARY KEY (whose, name, bucket, source, slot)
) WITH (fillfactor = 50);

-- Conversations: `run` has it until `until`; `unsettled` is a run that was given up while it had it and whose log was not
-- read yet. The messages before position `upto` are held by `summary`. `positions` is the next one. Times are the server's.
CREATE TABLE conversation (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  conversation text NOT NULL UNIQUE,
  agent text NOT NULL,
  tenant text NOT NULL,
  person text NOT NULL,
  created_at double precision NOT NULL,
  changed_at double precision NOT NULL,
  run text,
  until double precision NOT NULL DEFAULT 0,
  unsettled text,
  positions integer NOT NULL DEFAULT 0,
  upto integer NOT NULL DEFAULT 0,
  summary bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 70);
CREATE INDEX conversation_changed_at ON conversation (changed_at);

-- What was said. A message without a position still waits for its run; `until` is how long somebody promised to wait for
-- it (a message of the queue waits as long as its job). Texts are bytes, as they were written or encrypted.
CREATE TABLE message (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  conversation bigint NOT NULL REFERENCES conversation (id),
  position integer,
  role text NOT NULL,
  run text NOT NULL,
  at double precision NOT NULL,
  until double precision NOT NULL DEFAULT 0,
  body bytea NOT NULL,
  UNIQUE (conversation, position),
  UNIQUE (run, role)
);
CREATE INDEX message_waiting ON message (conversation, id) WHERE position IS NULL;

-- Effects that runs of a conversation made or may have made: a JSON list of keys for each run.
CREATE TABLE receipt (
  conversation bigint NOT NULL REFERENCES conversation (id),
  run text NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (conversation, run)
);

-- On whose behalf a submitted run is made, beside its tenant.
ALTER TABLE job ADD COLUMN person text NOT NULL DEFAULT '';

-- Spans of other runtimes, as they came, one row for each (trace, span): what came twice is there once, and the later
-- snapshot of a span stands in the place of the earlier one. `ended` orders the snapshots; `body` is JSON.
CREATE TABLE span (
  trace text NOT NULL,
  span text NOT NULL,
  ended double precision NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (trace, span)
);

-- When a trace last brought news, and whether nothing more is expected of it.
CREATE TABLE trace (
  trace text PRIMARY KEY,
  last double precision NOT NULL,
  settled integer NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX trace_open ON trace (last) WHERE settled = 0;
