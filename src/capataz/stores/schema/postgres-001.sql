-- One row for each run: the fence (epoch, events) and what a list of runs shows. The rest of it is a cache: folding the
-- log says the same. `events` is the number of events and thus the next position.
CREATE TABLE run (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run text NOT NULL UNIQUE,
  epoch integer NOT NULL,
  owner text NOT NULL,
  events integer NOT NULL DEFAULT 0,
  status text NOT NULL DEFAULT 'running',
  outcome text,
  reason text NOT NULL DEFAULT '',
  started_at double precision,
  ended_at double precision,
  turns integer NOT NULL DEFAULT 0,
  calls integer NOT NULL DEFAULT 0,
  input_tokens bigint NOT NULL DEFAULT 0,
  output_tokens bigint NOT NULL DEFAULT 0,
  money text DEFAULT '0',
  seconds double precision NOT NULL DEFAULT 0,
  agent text NOT NULL DEFAULT '',
  task text NOT NULL DEFAULT '',
  root text NOT NULL DEFAULT '',
  parent text,
  conversation text,
  task_type text,
  model text NOT NULL DEFAULT ''
) WITH (fillfactor = 70);
CREATE INDEX run_started_at ON run (started_at);
CREATE INDEX run_agent ON run (agent, started_at);
CREATE INDEX run_root ON run (root, started_at);
CREATE INDEX run_escalated ON run (started_at) WHERE status = 'escalated';

-- The log itself. Rows are inserted and never changed, except by an erasure, which takes the payloads out of them.
-- Bodies are bytes, exactly as they were written: JSON of PostgreSQL's own would refuse some of them.
CREATE TABLE event (
  run bigint NOT NULL REFERENCES run (id),
  seq integer NOT NULL,
  at double precision NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (run, seq)
);
