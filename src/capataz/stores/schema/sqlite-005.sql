-- A job that waits for a person is queued again when its log goes on, by whoever writes to the log: nobody has to look
-- for that at every claim. Where the log has gone on before the job began to wait, it does not wait.
CREATE TRIGGER run_goes_on AFTER UPDATE OF status ON run WHEN OLD.status = 'escalated' AND NEW.status <> 'escalated'
BEGIN
  UPDATE job SET state = 'queued' WHERE run = NEW.run AND state = 'waiting';
END;
CREATE TRIGGER job_waits AFTER UPDATE OF state ON job WHEN NEW.state = 'waiting'
BEGIN
  UPDATE job SET state = 'queued'
    WHERE id = NEW.id AND EXISTS (SELECT 1 FROM run WHERE run = NEW.run AND status <> 'escalated');
END;
UPDATE job SET state = 'queued'
  WHERE state = 'waiting' AND run IN (SELECT run FROM run WHERE status <> 'escalated');

-- The agent before the priority: jobs that a worker cannot do are no longer looked at on the way to those it can.
DROP INDEX job_next;
CREATE INDEX job_next ON job (state, tenant, agent, priority DESC, id);
