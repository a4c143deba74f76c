-- Ends the claims among `claims` whose lease is over. Each loses its fence, so whoever held it can write nothing more.
-- A row goes back to the end of those that are due, so that one which kills its workers does not go first each time;
-- from the third time on it waits, each for a time of its own, so that it meets the others of its batch no more. One that
-- would die goes back at once where it is spared.
CREATE FUNCTION soloist.reclaim(
    claims tid[], at timestamp with time zone, lease interval, max_reclaims integer, hold boolean, spare boolean
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    WITH gone AS (
        DELETE FROM soloist.work_items AS w
        WHERE w.ctid = ANY (claims) AND w.lease_until <= at AND (hold OR w.reclaims >= max_reclaims) AND NOT spare
        RETURNING w.*
    )
    INSERT INTO soloist.dead_items (
        id, due_at, created_at, fence, attempt, reclaims, priority, queue, unique_key, last_error, payload, reason
    )
    SELECT
        g.id, g.due_at, g.created_at, g.fence, g.attempt, g.reclaims + 1, g.priority, g.queue, g.unique_key,
        coalesce(g.last_error, 'The claim of ' || coalesce(g.claimed_by, 'a worker') || ' ended without an outcome.'),
        g.payload, CASE WHEN hold THEN 'Interrupted' ELSE 'ReclaimedTooOften' END
    FROM gone AS g;

    UPDATE soloist.work_items AS w
    SET reclaims = w.reclaims + 1,
        due_at = CASE
            WHEN hold OR w.reclaims >= max_reclaims THEN at
            ELSE at + greatest(w.reclaims - 1, 0) * random() * lease
        END,
        fence = NULL, lease_until = NULL, claimed_by = NULL
    WHERE w.ctid = ANY (claims) AND w.lease_until <= at;
END $$;

-- Claims up to `n` due rows of a queue for `lease`: those of priority 0 first, roughly by due time within one priority.
-- Commit before the work starts, and show `fence` with everything that is written for the row afterwards.
-- `attempt` belongs into the row's idempotency key, `tries` is held against a limit of attempts. A claim that ended
-- without an outcome is handed out again, at most `max_reclaims` times in a row, or with `hold` never.
-- After a full claim the next may pass due_at, id and priority of the last row it saw in the least urgent priority: it then
-- starts behind them, and does not walk through what was finished and cannot be removed while an old transaction is open.
-- Priorities less urgent than that one were not looked at yet, and start at their head. Rows that come back to an earlier
-- place are not met so: a claim without it has to come once in a poll interval.
-- With `spare` a row that would die is handed out once more, its reclaims above `max_reclaims` (or, with `hold`, above 0):
-- whoever asks for that gives it up with `settle`, in a transaction with what else is to happen then. With `doomed` too,
-- of the `n` rows that come first only such are claimed, and the others stay as they are.
-- The rows come in no order.
CREATE FUNCTION soloist.claim(
    queue text,
    n integer DEFAULT 1,
    lease interval DEFAULT '00:01:00',
    worker text DEFAULT NULL,
    max_reclaims integer DEFAULT 5,
    hold boolean DEFAULT false,
    after_due timestamp with time zone DEFAULT NULL,
    after_id bigint DEFAULT NULL,
    after_priority integer DEFAULT 3,
    spare boolean DEFAULT false,
    doomed boolean DEFAULT false
) RETURNS TABLE (
    id bigint, fence bigint, attempt integer, tries integer, reclaims integer, priority smallint,
    due_at timestamp with time zone, lease_until timestamp with time zone, unique_key text, payload jsonb
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- The statistics of such a table are wrong as a rule: taken while it was full, or empty. There is one right plan.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    at timestamp with time zone := clock_timestamp();
    start_due timestamp with time zone := coalesce(after_due, '-infinity');
    start_id bigint := coalesce(after_id, 0);
    left_to_claim integer := n;
    due_rows tid[];
    claimed integer;
BEGIN
    IF n IS NULL OR n NOT BETWEEN 1 AND 500 THEN
        RAISE EXCEPTION 'n is %, and a claim takes 1 to 500 rows', n
            USING ERRCODE = '22023', HINT = 'Claim again at once as long as a claim comes back full.';
    ELSIF lease IS NULL OR lease <= interval '0' THEN
        RAISE EXCEPTION 'lease is %, and has to be longer than nothing', lease
            USING ERRCODE = '22023', HINT = 'Give an interval such as ''60 seconds''.';
    END IF;
    -- Rows whose lease is over are met among the others. They go back to the end first and then take their turn, so
    -- another pass looks for them. A claim that meets more than some hundreds leaves the rest to the next one.
    FOR pass IN 1..greatest(4, 500 / n) LOOP
        due_rows := ARRAY(
            SELECT w.row
            FROM (VALUES (0::smallint), (1::smallint), (2::smallint), (3::smallint)) AS p(level)
            CROSS JOIN LATERAL (
                SELECT i.ctid AS row
                FROM soloist.work_items AS i
                WHERE i.queue = claim.queue AND i.priority = p.level AND i.due_at <= at
                    AND (i.due_at, i.id) > (
                        CASE WHEN p.level <= after_priority THEN start_due ELSE '-infinity' END,
                        CASE WHEN p.level <= after_priority THEN start_id ELSE 0 END
                    )
                    AND (i.lease_until IS NULL OR i.lease_until <= at)
                ORDER BY i.due_at, i.id
                LIMIT left_to_claim
                FOR UPDATE SKIP LOCKED
            ) AS w
            LIMIT left_to_claim
        );
        EXIT WHEN cardinality(due_rows) = 0;
        -- Only where one is handed out: an idle queue is asked often, and to lift it is to write, and to wait for the disk.
        PERFORM soloist.lift_fence();
        IF doomed THEN
            RETURN QUERY
            UPDATE soloist.work_items AS i
            SET fence = nextval('soloist.fence'), lease_until = at + lease, claimed_by = worker,
                reclaims = i.reclaims + (i.lease_until IS NOT NULL)::integer
            WHERE i.ctid = ANY (due_rows)
                AND i.reclaims + (i.lease_until IS NOT NULL)::integer > CASE WHEN hold THEN 0 ELSE max_reclaims END
            RETURNING i.id, i.fence, i.attempt, i.attempt - i.retry_base, i.reclaims, i.priority, i.due_at,
                i.lease_until, i.unique_key, i.payload;
            EXIT;
        END IF;
        RETURN QUERY
        UPDATE soloist.work_items AS i
        SET fence = nextval('soloist.fence'), lease_until = at + lease, claimed_by = worker
        WHERE i.ctid = ANY (due_rows) AND i.lease_until IS NULL
        RETURNING i.id, i.fence, i.attempt, i.attempt - i.retry_base, i.reclaims, i.priority, i.due_at,
            i.lease_until, i.unique_key, i.payload;
        GET DIAGNOSTICS claimed = ROW_COUNT;
        EXIT WHEN claimed = cardinality(due_rows);
        PERFORM soloist.reclaim(due_rows, at, lease, max_reclaims, hold, spare);
        left_to_claim := left_to_claim - claimed;
        EXIT WHEN left_to_claim = 0;
    END LOOP;
END $$;
