-- One message, so that whoever sends it can hold nobody up between the check and the commit. What was deferred to the commit
-- is done before the check, since the lock that the check takes keeps a new leader waiting.
UPDATE soloist.job_runs SET outcome = %(outcome)s::jsonb WHERE job_uid = %(job)s AND run_key = %(key)s;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT soloist.check_epoch(%(shard)s, %(epoch)s);
COMMIT
