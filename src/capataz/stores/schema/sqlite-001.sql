-- One row for each run: the fence (epoch, events) and what a list of runs shows. The rest of it is a cache: folding the
-- log says the same. `events` is the number of events and thus the next position.
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  run TEXT NOT NULL UNIQUE,
  epoch INTEGER NOT NULL,
  owner TEXT NOT NULL,
  events INTEGER NOT NULL DEFAULT 0,
  status TEXT NOT NULL DEFAULT 'running',
  outcome TEXT,
  reason TEXT NOT NULL DEFAULT '',
  started_at REAL,
  ended_at REAL,
  turns INTEGER NOT NULL DEFAULT 0,
  calls INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  money TEXT DEFAULT '0',
  seconds REAL NOT NULL DEFAULT 0,
  agent TEXT NOT NULL DEFAULT '',
  task TEXT NOT NULL DEFAULT '',
  root TEXT NOT NULL DEFAULT '',
  parent TEXT,
  conversation TEXT,
  task_type TEXT,
  model TEXT NOT NULL DEFAULT ''
);
CREATE INDEX run_started_at ON run (started_at);
CREATE INDEX run_agent ON run (agent, started_at);
CREATE INDEX run_root ON run (root, started_at);

-- The log itself. Rows are inserted and never changed.
CREATE TABLE event (
  run INTEGER NOT NULL REFERENCES run (id),
  seq INTEGER NOT NULL,
  at REAL NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (run, seq)
) WITHOUT ROWID;
