-- The rows that many runs add to queues, with the records of those runs, as one transaction that checks the epoch last.
--
-- For each what there is to tell of it; null where it was recorded before, and nothing is added. `term` is how the session
-- calls itself meanwhile, so that a later leader can end it; `wait` is how long it waits for whoever is at one of the same
-- runs, or has added a row with the same unique key and not committed.
CREATE FUNCTION soloist.enqueue_runs(shard text, epoch bigint, term text, wait text, runs jsonb)
RETURNS TABLE (n integer, said text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    run record;
    made bigint;
BEGIN
    PERFORM set_config('application_name', term, true), set_config('lock_timeout', wait, true);
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    FOR run IN
        SELECT * FROM jsonb_to_recordset(runs) AS r(
            n integer, job text, key text, tick timestamp with time zone, queue text, payload jsonb, seconds double precision,
            unique_key text, priority integer
        ) ORDER BY r.job, r.key
    LOOP
        n := run.n;
        said := NULL;
        IF soloist.record_run(run.job, run.key, run.tick, enqueue_runs.epoch) THEN
            made := soloist.enqueue(
                run.queue, run.payload, now() + make_interval(secs => run.seconds), run.unique_key, run.priority
            );
            said := CASE
                WHEN made IS NULL THEN format('none added: queue %s has a row with this uniqueKey already', run.queue)
                ELSE format('row %s of queue %s', made, run.queue)
            END;
            UPDATE soloist.job_runs AS r SET outcome = jsonb_build_object('said', said)
            WHERE r.job_uid = run.job AND r.run_key = run.key;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM soloist.check_epoch(enqueue_runs.shard, enqueue_runs.epoch);
END $$;
