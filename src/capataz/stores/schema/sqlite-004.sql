-- Spans of other runtimes, as they came, one row for each (trace, span): what came twice is there once, and the later
-- snapshot of a span stands in the place of the earlier one. `ended` orders the snapshots; `body` is JSON.
CREATE TABLE span (
  trace TEXT NOT NULL,
  span TEXT NOT NULL,
  ended REAL NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (trace, span)
) WITHOUT ROWID;

-- When a trace last brought news, and whether nothing more is expected of it.
CREATE TABLE trace (
  trace TEXT PRIMARY KEY,
  last REAL NOT NULL,
  settled INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX trace_open ON trace (last) WHERE settled = 0;
