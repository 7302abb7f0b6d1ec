-- A job that waits for a person is queued again when its log goes on, by whoever writes to the log: nobody has to look
-- for that at every claim. Only where this table is the engine; another one asks which jobs were answered.
CREATE FUNCTION run_goes_on() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE job SET state = 'queued' WHERE run = NEW.run AND state = 'waiting' AND engine = '';
  RETURN NULL;
END $$;
CREATE TRIGGER run_goes_on AFTER UPDATE OF status ON run
  FOR EACH ROW WHEN (OLD.status = 'escalated' AND NEW.status <> 'escalated') EXECUTE FUNCTION run_goes_on();

-- Where the log has gone on before the job began to wait, it does not wait; nor where somebody writes to the log just
-- now, who may not see this job wait. Nobody waits for a writer here, and a writer for no more than this statement.
CREATE FUNCTION job_waits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM run WHERE run = NEW.run;
  IF FOUND THEN
    PERFORM 1 FROM run WHERE run = NEW.run AND status = 'escalated' FOR SHARE SKIP LOCKED;
    IF NOT FOUND THEN
      NEW.state := 'queued';
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER job_waits BEFORE UPDATE OF state ON job
  FOR EACH ROW WHEN (NEW.state = 'waiting' AND NEW.engine = '') EXECUTE FUNCTION job_waits();
UPDATE job SET state = 'queued' FROM run
  WHERE job.state = 'waiting' AND job.engine = '' AND run.run = job.run AND run.status <> 'escalated';

-- The agent before the priority: jobs that a worker cannot do are not looked at on the way to those it can. And a lease
-- that has run out is found without looking at those that have not. What IS NOT NULL says of the claimed is always so:
-- it keeps these indexes from being walked from end to end to count the jobs of one tenant.
DROP INDEX job_next;
CREATE INDEX job_next ON job (engine, tenant, agent, priority DESC, id) WHERE state = 'queued';
DROP INDEX job_claimed;
CREATE INDEX job_claimed ON job (engine, tenant) WHERE state = 'claimed';
CREATE INDEX job_until ON job (until) WHERE state = 'claimed' AND until IS NOT NULL;
DROP INDEX job_worker;
CREATE INDEX job_worker ON job (worker) WHERE state = 'claimed' AND worker IS NOT NULL;

-- As before, with all turns of a batch from one look at the tenants. It waits for no job: whoever holds one is changing
-- it, and it is looked at the next time.
CREATE OR REPLACE FUNCTION claim_jobs(
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
  UPDATE job SET state = 'queued', here = here + 1, total = total + 1, broken = token WHERE id = ANY (ARRAY(
    SELECT id FROM job WHERE state = 'claimed' AND until < now AND engine = via FOR UPDATE SKIP LOCKED));
  UPDATE job SET state = 'queued' WHERE id = ANY (ARRAY(
    SELECT id FROM job WHERE state = 'parked' AND due <= now AND engine = via FOR UPDATE SKIP LOCKED));
  IF via <> '' THEN
    UPDATE job SET state = 'queued' FROM run
      WHERE job.state = 'waiting' AND job.engine = via AND run.run = job.run AND run.status <> 'escalated';
  END IF;
  FOR chosen, whose IN
    -- A step from name to name along the index: as many lookups as there are tenants, however many jobs they have.
    WITH RECURSIVE names (name) AS (
      (SELECT min(tenant) FROM job WHERE state = 'queued' AND engine = via)
      UNION ALL
      SELECT (SELECT min(tenant) FROM job WHERE state = 'queued' AND engine = via AND tenant > names.name)
      FROM names WHERE names.name IS NOT NULL
    ), able (agent) AS (
      SELECT DISTINCT unnest(wanted)
    ), turns AS (
      SELECT names.name, coalesce(tenant.served, 0) AS served,
        (SELECT count(*) FROM job WHERE state = 'claimed' AND engine = via AND job.tenant = names.name) AS busy
      FROM names LEFT JOIN tenant ON tenant.name = names.name
      WHERE names.name IS NOT NULL
      ORDER BY busy, served, name
    ), first AS (
      -- No tenant beyond these has a turn.
      SELECT * FROM turns WHERE EXISTS (
        SELECT 1 FROM able WHERE (
          SELECT id FROM job WHERE state = 'queued' AND engine = via AND tenant = turns.name AND job.agent = able.agent
          ORDER BY priority DESC, id LIMIT 1
        ) IS NOT NULL
      ) LIMIT most
    )
    SELECT next.id, first.name FROM first CROSS JOIN LATERAL (
      SELECT job.id, row_number() OVER (ORDER BY job.priority DESC, job.id) AS nth
      FROM able CROSS JOIN LATERAL (
        SELECT * FROM job WHERE state = 'queued' AND engine = via AND tenant = first.name AND job.agent = able.agent
        ORDER BY priority DESC, id LIMIT most
      ) AS job
      ORDER BY nth LIMIT most
    ) AS next
    WHERE limit_per_tenant IS NULL OR busy + nth <= limit_per_tenant
    -- Whoever has fewest running, then whoever was served longest ago: in this batch, those whose turn comes again.
    ORDER BY busy + nth, nth, served, name LIMIT most
  LOOP
    PERFORM 1 FROM job WHERE id = chosen AND state = 'queued' FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    UPDATE job SET state = 'claimed', worker = who, token = token + 1, until = now + lease,
      beat_at = NULL, waiting_for = NULL, silent = NULL
      WHERE id = chosen RETURNING * INTO taken;
    INSERT INTO tenant (name, served) VALUES (whose, nextval('tenant_served'))
      ON CONFLICT (name) DO UPDATE SET served = excluded.served;
    RETURN NEXT taken;
  END LOOP;
END $$;
