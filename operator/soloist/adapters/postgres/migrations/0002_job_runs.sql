-- The ledger of runs whose effect is in this database: the row and the effect commit together, so each is there once.

CREATE TABLE soloist.job_runs (
    job_uid text NOT NULL,
    run_key text NOT NULL,
    tick timestamp with time zone,
    epoch bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    outcome jsonb,
    PRIMARY KEY (job_uid, run_key)
);

-- Up to and including last_tick the rows of a job were pruned; every tick so old counts as run.
CREATE TABLE soloist.job_ticks (
    job_uid text PRIMARY KEY,
    last_tick timestamp with time zone NOT NULL
);

-- True: recorded now, so do the effect in this very transaction. False: it was done before. Waits for a transaction
-- that is at the same run, so set lock_timeout. `tick` is null for a run that has none.
CREATE FUNCTION soloist.record_run(job_uid text, run_key text, tick timestamp with time zone, epoch bigint)
RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO soloist.job_runs (job_uid, run_key, tick, epoch)
    VALUES (record_run.job_uid, record_run.run_key, record_run.tick, record_run.epoch)
    ON CONFLICT ON CONSTRAINT job_runs_pkey DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- After the insert, so that a row which was pruned a moment ago is seen here.
    PERFORM FROM soloist.job_ticks AS t
    WHERE t.job_uid = record_run.job_uid AND t.last_tick >= record_run.tick;
    IF FOUND THEN
        DELETE FROM soloist.job_runs AS r WHERE r.job_uid = record_run.job_uid AND r.run_key = record_run.run_key;
        RETURN false;
    END IF;
    RETURN true;
END $$;

-- Removes at most `up_to` rows older than `keep` and remembers their ticks; says how many.
CREATE FUNCTION soloist.prune_runs(keep interval, up_to integer DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    pruned bigint;
BEGIN
    WITH old AS MATERIALIZED (
        SELECT r.job_uid, r.run_key FROM soloist.job_runs AS r
        WHERE r.recorded_at < clock_timestamp() - keep
        ORDER BY r.job_uid, r.run_key
        LIMIT up_to
        FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM soloist.job_runs AS r USING old AS o
        WHERE r.job_uid = o.job_uid AND r.run_key = o.run_key
        RETURNING r.job_uid, r.tick
    ), remembered AS (
        INSERT INTO soloist.job_ticks AS t (job_uid, last_tick)
        SELECT g.job_uid, max(g.tick) FROM gone AS g WHERE g.tick IS NOT NULL GROUP BY g.job_uid ORDER BY g.job_uid
        ON CONFLICT ON CONSTRAINT job_ticks_pkey DO UPDATE SET last_tick = greatest(t.last_tick, excluded.last_tick)
    )
    SELECT count(*) INTO pruned FROM gone;
    RETURN pruned;
END $$;
