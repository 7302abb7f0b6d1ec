-- The queue: which run is driven next, and by whom. It dispatches and counts; what happened in a run is only in its log.
-- `token` is raised by every claim and fences the operations of earlier ones. `broken` is the token that was last counted
-- as a crash; `here` are the crashes at `step`. `engine` is who brings the job to a worker: '' is this table itself, and
-- then `handed` means nothing; another engine is handed the id once. All times are seconds since the epoch, by the
-- server's clock. `task` is bytes: a text of PostgreSQL's own may not hold everything a task may.
CREATE TABLE job (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run text NOT NULL UNIQUE,
  agent text NOT NULL,
  task bytea NOT NULL,
  task_type text,
  conversation text,
  tenant text NOT NULL,
  priority integer NOT NULL,
  due double precision NOT NULL,
  key text UNIQUE,
  engine text NOT NULL,
  handed boolean NOT NULL DEFAULT false,
  state text NOT NULL,
  enqueued_at double precision NOT NULL,
  worker text,
  token integer NOT NULL DEFAULT 0,
  until double precision,
  step text NOT NULL DEFAULT '',
  here integer NOT NULL DEFAULT 0,
  total integer NOT NULL DEFAULT 0,
  broken integer NOT NULL DEFAULT 0,
  orders text,
  reason text NOT NULL DEFAULT '',
  beat_at double precision,
  waiting_for text,
  silent double precision
) WITH (fillfactor = 70);
CREATE INDEX job_next ON job (engine, tenant, priority DESC, id) WHERE state = 'queued';
CREATE INDEX job_due ON job (due) WHERE state = 'parked';
CREATE INDEX job_claimed ON job (tenant, until) WHERE state = 'claimed';
CREATE INDEX job_worker ON job (worker) WHERE state = 'claimed';
CREATE INDEX job_waiting ON job (run) WHERE state = 'waiting';
CREATE INDEX job_not_handed ON job (enqueued_at) WHERE NOT handed;

-- When each tenant was last served, as a count: who was served longest ago goes first.
CREATE TABLE tenant (
  name text PRIMARY KEY,
  served bigint NOT NULL
) WITH (fillfactor = 50);
CREATE SEQUENCE tenant_served;

-- One row for each worker that has not left, written by a thread of its own at every beat.
CREATE TABLE worker (
  worker text PRIMARY KEY,
  started_at double precision NOT NULL,
  beat_at double precision NOT NULL,
  until double precision NOT NULL,
  slots integer NOT NULL,
  busy integer NOT NULL,
  lag double precision NOT NULL,
  health text NOT NULL
) WITH (fillfactor = 50);

-- The one worker that looks after the others.
CREATE TABLE leader (
  one integer PRIMARY KEY CHECK (one = 1),
  worker text NOT NULL,
  until double precision NOT NULL
);

-- For the retention of payloads.
CREATE INDEX run_ended_at ON run (ended_at) WHERE status = 'ended';

CREATE FUNCTION moment() RETURNS double precision LANGUAGE sql VOLATILE AS
  $$ SELECT extract(epoch FROM clock_timestamp())::double precision $$;

-- The next jobs for a worker, in one statement: the server finishes it even when the client freezes in the middle, so
-- that no lock waits for a client. One claim at a time, so that turns and limits of tenants are exact.
CREATE FUNCTION claim_jobs(
  who text, wanted text[], lease double precision, limit_per_tenant integer, most integer, via text
) RETURNS SETOF job LANGUAGE plpgsql AS $$
DECLARE
  now double precision;
  chosen bigint;
  whose text;
  taken job%ROWTYPE;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext(current_schema() || '.job'), hashtext(via));
  now := moment();
  UPDATE job SET state = 'queued', here = here + 1, total = total + 1, broken = token
    WHERE state = 'claimed' AND until < now AND engine = via;
  UPDATE job SET state = 'queued' WHERE state = 'parked' AND due <= now AND engine = via;
  UPDATE job SET state = 'queued' FROM run
    WHERE job.state = 'waiting' AND job.engine = via AND run.run = job.run AND run.status <> 'escalated';
  FOR i IN 1..most LOOP
    -- A step from name to name along the index: as many lookups as there are tenants, however many jobs they have.
    WITH RECURSIVE names (name) AS (
      (SELECT min(tenant) FROM job WHERE state = 'queued' AND engine = via)
      UNION ALL
      SELECT (SELECT min(tenant) FROM job WHERE state = 'queued' AND engine = via AND tenant > names.name)
      FROM names WHERE names.name IS NOT NULL
    ), turns AS (
      SELECT names.name, coalesce(tenant.served, 0) AS served,
        (SELECT count(*) FROM job WHERE state = 'claimed' AND engine = via AND job.tenant = names.name) AS busy
      FROM names LEFT JOIN tenant ON tenant.name = names.name
      WHERE names.name IS NOT NULL
    )
    SELECT next.id, turns.name INTO chosen, whose
    FROM turns CROSS JOIN LATERAL (
      SELECT job.id FROM job
      WHERE state = 'queued' AND engine = via AND job.tenant = turns.name AND agent = ANY (wanted)
      ORDER BY priority DESC, job.id LIMIT 1
    ) AS next
    WHERE limit_per_tenant IS NULL OR turns.busy < limit_per_tenant
    ORDER BY turns.busy, turns.served, turns.name LIMIT 1;
    EXIT WHEN NOT FOUND;
    -- Whoever holds the row now is breaking it off: somebody else claims it next time.
    PERFORM 1 FROM job WHERE id = chosen AND state = 'queued' FOR UPDATE SKIP LOCKED;
    EXIT WHEN NOT FOUND;
    UPDATE job SET state = 'claimed', worker = who, token = token + 1, until = now + lease,
      beat_at = NULL, waiting_for = NULL, silent = NULL
      WHERE id = chosen RETURNING * INTO taken;
    INSERT INTO tenant (name, served) VALUES (whose, nextval('tenant_served'))
      ON CONFLICT (name) DO UPDATE SET served = excluded.served;
    RETURN NEXT taken;
  END LOOP;
END $$;

-- One job, by its id, for a worker that another engine has sent. Whoever had it until now was given up by that engine:
-- that counts as a crash, unless it was given back before.
CREATE FUNCTION take_job(target text, who text, lease double precision, via text)
RETURNS SETOF job LANGUAGE sql AS $$
  UPDATE job SET
    here = here + CASE WHEN state = 'claimed' THEN 1 ELSE 0 END,
    total = total + CASE WHEN state = 'claimed' THEN 1 ELSE 0 END,
    broken = CASE WHEN state = 'claimed' THEN token ELSE broken END,
    state = 'claimed', worker = who, token = token + 1, until = moment() + lease,
    beat_at = NULL, waiting_for = NULL, silent = NULL, handed = true
  WHERE run = target AND engine = via AND state NOT IN ('done', 'dead', 'cancelled')
  RETURNING *
$$;
