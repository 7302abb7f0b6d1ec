-- The queue: which run is driven next, and by whom. It dispatches and counts; what happened in a run is only in its log.
-- `token` is raised by every claim and fences the operations of earlier ones. `broken` is the token that was last counted
-- as a crash; `here` are the crashes at `step`. `until`, `due` and all other times are seconds since the epoch.
CREATE TABLE job (
  id INTEGER PRIMARY KEY,
  run TEXT NOT NULL UNIQUE,
  agent TEXT NOT NULL,
  task TEXT NOT NULL,
  task_type TEXT,
  conversation TEXT,
  tenant TEXT NOT NULL,
  priority INTEGER NOT NULL,
  due REAL NOT NULL,
  key TEXT UNIQUE,
  state TEXT NOT NULL,
  enqueued_at REAL NOT NULL,
  worker TEXT,
  token INTEGER NOT NULL DEFAULT 0,
  until REAL,
  step TEXT NOT NULL DEFAULT '',
  here INTEGER NOT NULL DEFAULT 0,
  total INTEGER NOT NULL DEFAULT 0,
  broken INTEGER NOT NULL DEFAULT 0,
  orders TEXT,
  reason TEXT NOT NULL DEFAULT '',
  beat_at REAL,
  waiting_for TEXT,
  silent REAL
);
CREATE INDEX job_next ON job (state, tenant, priority DESC, id);
CREATE INDEX job_due ON job (state, due);
CREATE INDEX job_until ON job (until) WHERE state = 'claimed';

-- When each tenant was last served, as a count: who was served longest ago goes first.
CREATE TABLE tenant (
  name TEXT PRIMARY KEY,
  served INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tenant_served ON tenant (served);

-- One row for each worker that has not left, written by a thread of its own at every beat.
CREATE TABLE worker (
  worker TEXT PRIMARY KEY,
  started_at REAL NOT NULL,
  beat_at REAL NOT NULL,
  until REAL NOT NULL,
  slots INTEGER NOT NULL,
  busy INTEGER NOT NULL,
  lag REAL NOT NULL,
  health TEXT NOT NULL
) WITHOUT ROWID;

-- The one worker that looks after the others.
CREATE TABLE leader (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  worker TEXT NOT NULL,
  until REAL NOT NULL
);
