-- A log of schema 4 with jobs that wait, as SQLite dumps it. It must open for ever: never change it, add one for each later schema.
PRAGMA application_id=1130459233;
PRAGMA user_version=4;
PRAGMA journal_mode=WAL;
BEGIN TRANSACTION;
CREATE TABLE allowance (
  whose TEXT NOT NULL,
  name TEXT NOT NULL,
  period TEXT NOT NULL,
  tokens INTEGER,
  money INTEGER,
  PRIMARY KEY (whose, name, period)
) WITHOUT ROWID;
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
CREATE TABLE event (
  run INTEGER NOT NULL REFERENCES run (id),
  seq INTEGER NOT NULL,
  at REAL NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (run, seq)
) WITHOUT ROWID;
INSERT INTO "event" VALUES(1,0,100.0,X'7B2274223A2252756E53746172746564222C2276223A312C2272756E223A2277616974696E672D72756E222C226167656E74223A22737570706F7274222C227461736B223A2274227D');
INSERT INTO "event" VALUES(1,1,101.0,X'7B2274223A2252756E457363616C61746564222C2276223A312C22726561736F6E223A22696E2D646F756274222C2264657461696C223A223F227D');
INSERT INTO "event" VALUES(2,0,100.0,X'7B2274223A2252756E53746172746564222C2276223A312C2272756E223A22616E7377657265642D72756E222C226167656E74223A22737570706F7274222C227461736B223A2274227D');
INSERT INTO "event" VALUES(2,1,101.0,X'7B2274223A2252756E457363616C61746564222C2276223A312C22726561736F6E223A22696E2D646F756274222C2264657461696C223A223F227D');
INSERT INTO "event" VALUES(2,2,102.0,X'7B2274223A22457363616C6174696F6E416E737765726564222C2276223A312C22616374696F6E223A227265747279222C226279223A22616E61227D');
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
, person TEXT NOT NULL DEFAULT '');
INSERT INTO "job" VALUES(1,'waiting-run','support','t',NULL,NULL,'acme',0,0.0,NULL,'waiting',100.0,'w1',1,NULL,'',0,0,0,NULL,'in-doubt',NULL,NULL,NULL,'');
INSERT INTO "job" VALUES(2,'answered-run','support','t',NULL,NULL,'acme',0,0.0,NULL,'waiting',100.0,'w1',1,NULL,'',0,0,0,NULL,'in-doubt',NULL,NULL,NULL,'');
INSERT INTO "job" VALUES(3,'queued-run','support','t',NULL,NULL,'acme',2,0.0,NULL,'queued',100.0,NULL,0,NULL,'',0,0,0,NULL,'',NULL,NULL,NULL,'');
CREATE TABLE leader (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  worker TEXT NOT NULL,
  until REAL NOT NULL
);
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
CREATE TABLE receipt (
  conversation INTEGER NOT NULL REFERENCES conversation (id),
  run TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (conversation, run)
) WITHOUT ROWID;
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
INSERT INTO "run" VALUES(1,'waiting-run',1,'w1',2,'escalated','escalated','in-doubt',100.0,NULL,0,0,0,0,'0',1.0,'support','t','waiting-run',NULL,NULL,NULL,'');
INSERT INTO "run" VALUES(2,'answered-run',2,'inbox',3,'running',NULL,'',100.0,NULL,0,0,0,0,'0',2.0,'support','t','answered-run',NULL,NULL,NULL,'');
CREATE TABLE span (
  trace TEXT NOT NULL,
  span TEXT NOT NULL,
  ended REAL NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (trace, span)
) WITHOUT ROWID;
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
CREATE TABLE tenant (
  name TEXT PRIMARY KEY,
  served INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "tenant" VALUES('acme',2);
CREATE TABLE trace (
  trace TEXT PRIMARY KEY,
  last REAL NOT NULL,
  settled INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
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
CREATE INDEX run_started_at ON run (started_at);
CREATE INDEX run_agent ON run (agent, started_at);
CREATE INDEX run_root ON run (root, started_at);
CREATE INDEX job_next ON job (state, tenant, priority DESC, id);
CREATE INDEX job_due ON job (state, due);
CREATE INDEX job_until ON job (until) WHERE state = 'claimed';
CREATE INDEX tenant_served ON tenant (served);
CREATE INDEX reservation_until ON reservation (until);
CREATE INDEX conversation_changed_at ON conversation (changed_at);
CREATE INDEX message_waiting ON message (conversation, id) WHERE position IS NULL;
CREATE INDEX trace_open ON trace (last) WHERE settled = 0;
COMMIT;
