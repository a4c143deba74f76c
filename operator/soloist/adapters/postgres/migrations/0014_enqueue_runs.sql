-- The rows that many runs add to queues, with the records of those runs, as one transaction that checks the epoch last.
--
-- For each what there is to tell of it; null where it was recorded before, and nothing is added. `term` is how the session
-- calls itself meanwhile, so that a later leader can end it; `wait` is how long it waits for whoever is at one of the same
-- runs, or has added a row with the same unique key and not committed. Whoever may be at the same runs goes through them in
-- the same order: those with a unique key, one by one, then all the others together.
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
        ) WHERE r.unique_key IS NOT NULL ORDER BY r.job, r.key
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
    RETURN QUERY SELECT e.n, e.said FROM soloist.enqueue_new_runs(enqueue_runs.epoch, runs) AS e;
    PERFORM soloist.check_epoch(enqueue_runs.shard, enqueue_runs.epoch);
END $$;

-- Of `runs` those without a unique key: nothing can keep a row of theirs out, so its number is drawn before, and the record
-- is written whole. Lists of hundreds are joined by hashing, whatever the planner guesses of their lengths.
CREATE FUNCTION soloist.enqueue_new_runs(epoch bigint, runs jsonb) RETURNS TABLE (n integer, said text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    recorded integer[];
    ids bigint[];
    late record;
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT r.n, r.job, r.key, r.tick, r.queue, nextval('soloist.work_items_id_seq') AS id
        FROM jsonb_to_recordset(runs) AS r(
            n integer, job text, key text, tick timestamp with time zone, queue text, unique_key text
        ) WHERE r.unique_key IS NULL
    ), written AS (
        INSERT INTO soloist.job_runs AS j (job_uid, run_key, tick, epoch, outcome)
        SELECT a.job, a.key, a.tick, enqueue_new_runs.epoch,
            jsonb_build_object('said', format('row %s of queue %s', a.id, a.queue))
        FROM asked AS a ORDER BY a.job, a.key
        ON CONFLICT ON CONSTRAINT job_runs_pkey DO NOTHING
        RETURNING j.job_uid, j.run_key
    )
    SELECT array_agg(a.n), array_agg(a.id) INTO recorded, ids
    FROM asked AS a JOIN written AS w ON w.job_uid = a.job AND w.run_key = a.key;
    -- After the insert, as in record_run: a row that was pruned a moment ago is seen here.
    FOR late IN
        SELECT r.n, r.job, r.key FROM jsonb_to_recordset(runs) AS r(n integer, job text, key text, tick timestamp with time zone)
        JOIN soloist.job_ticks AS t ON t.job_uid = r.job AND t.last_tick >= r.tick
        WHERE r.n = ANY (recorded)
    LOOP
        DELETE FROM soloist.job_runs AS j WHERE j.job_uid = late.job AND j.run_key = late.key;
        ids[array_position(recorded, late.n)] := NULL;
    END LOOP;
    INSERT INTO soloist.work_items AS w (id, queue, payload, due_at, priority) OVERRIDING SYSTEM VALUE
    SELECT i.id, r.queue, r.payload, now() + make_interval(secs => coalesce(r.seconds, 0)), r.priority
    FROM unnest(recorded, ids) AS i(n, id)
    JOIN jsonb_to_recordset(runs) AS r(n integer, queue text, payload jsonb, seconds double precision, priority integer)
        ON r.n = i.n
    WHERE i.id IS NOT NULL
    ORDER BY i.id;
    PERFORM soloist.wake(q.queue) FROM (
        SELECT DISTINCT r.queue FROM jsonb_to_recordset(runs) AS r(n integer, queue text, seconds double precision)
        WHERE r.n = ANY (recorded) AND coalesce(r.seconds, 0) <= 0
    ) AS q;
    RETURN QUERY
    SELECT r.n, CASE WHEN i.id IS NOT NULL THEN format('row %s of queue %s', i.id, r.queue) END
    FROM jsonb_to_recordset(runs) AS r(n integer, queue text, unique_key text)
    LEFT JOIN unnest(recorded, ids) AS i(n, id) ON i.n = r.n
    WHERE r.unique_key IS NULL;
END $$;
