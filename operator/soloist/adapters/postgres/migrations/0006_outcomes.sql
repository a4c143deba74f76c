-- What a worker says of its claims. Each takes ids and fences as two arrays of one length, and gives the ids that were
-- accepted: an id that is missing means a claim that is lost, for which nothing was written. Rows are taken in the order
-- of their ids, so that two statements of one worker wait for each other instead of deadlocking. A lease that is over
-- counts until somebody else has claimed the row.

CREATE FUNCTION soloist.renew(ids bigint[], fences bigint[], lease interval) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    RETURN QUERY
    UPDATE soloist.work_items AS w SET lease_until = clock_timestamp() + lease
    FROM (SELECT * FROM unnest(ids, fences) AS a(id, fence) ORDER BY 1) AS c
    WHERE w.id = c.id AND w.fence = c.fence
    RETURNING w.id;
END $$;

CREATE FUNCTION soloist.complete(ids bigint[], fences bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    RETURN QUERY
    DELETE FROM soloist.work_items AS w
    USING (SELECT * FROM unnest(ids, fences) AS a(id, fence) ORDER BY 1) AS c
    WHERE w.id = c.id AND w.fence = c.fence
    RETURNING w.id;
END $$;

-- Puts rows back untried: due as before, no attempt used, so that another worker takes them at once.
CREATE FUNCTION soloist.release(ids bigint[], fences bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    RETURN QUERY
    UPDATE soloist.work_items AS w SET fence = NULL, lease_until = NULL, claimed_by = NULL
    FROM (SELECT * FROM unnest(ids, fences) AS a(id, fence) ORDER BY 1) AS c
    WHERE w.id = c.id AND w.fence = c.fence
    RETURNING w.id;
END $$;

-- Outcomes of any kind, each under its fence, in one statement. `outcomes` holds Done, Failed, PutBack, Interrupted,
-- ReclaimedTooOften or Refused; `errors` and `retry_in` are null where an outcome has none. A Failed row is given up where
-- it has no retry_in, and a row that is PutBack with one is not handed out before. The last three wait for a person among
-- the dead, and keep their attempt's number: it may have arrived, and a repeat is to be known as one.
CREATE FUNCTION soloist.settle(
    ids bigint[], fences bigint[], outcomes text[], errors text[], retry_in interval[]
) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    known CONSTANT text[] := ARRAY['Done', 'Failed', 'PutBack', 'Interrupted', 'ReclaimedTooOften', 'Refused'];
BEGIN
    -- A Failed row without a wait is given up: of arrays of several lengths some would be that nobody meant.
    IF NOT outcomes <@ known OR array_position(outcomes, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'outcomes holds something else than %', known
            USING ERRCODE = '22023', HINT = 'Give one outcome for each id.';
    ELSIF cardinality(ids) <> ANY (
        ARRAY[cardinality(fences), cardinality(outcomes), cardinality(errors), cardinality(retry_in)]
    ) THEN
        RAISE EXCEPTION 'there are % ids, % fences, % outcomes, % errors and % waits',
            cardinality(ids), cardinality(fences), cardinality(outcomes), cardinality(errors), cardinality(retry_in)
            USING ERRCODE = '22023', HINT = 'Give one of each for each row, null for those without.';
    END IF;
    RETURN QUERY
    WITH said AS MATERIALIZED (
        SELECT w.id, a.outcome, left(a.error, 4000) AS error, a.wait
        FROM unnest(ids, fences, outcomes, errors, retry_in) AS a(id, fence, outcome, error, wait)
        JOIN soloist.work_items AS w ON w.id = a.id AND w.fence = a.fence
        ORDER BY w.id
        FOR UPDATE OF w
    ), gone AS (
        DELETE FROM soloist.work_items AS w USING said AS s
        WHERE w.id = s.id AND s.outcome <> 'PutBack' AND (s.outcome <> 'Failed' OR s.wait IS NULL)
        RETURNING w.*, s.outcome, s.error
    ), dead AS (
        INSERT INTO soloist.dead_items AS d (
            id, due_at, created_at, fence, attempt, reclaims, priority, queue, unique_key, last_error, payload, reason
        )
        SELECT
            g.id, g.due_at, g.created_at, g.fence, g.attempt + (g.outcome = 'Failed')::integer,
            CASE g.outcome WHEN 'Failed' THEN 0 ELSE g.reclaims END, g.priority, g.queue, g.unique_key, g.error, g.payload,
            g.outcome
        FROM gone AS g
        WHERE g.outcome <> 'Done'
    ), again AS (
        UPDATE soloist.work_items AS w
        SET attempt = w.attempt + (s.outcome = 'Failed')::integer,
            reclaims = CASE s.outcome WHEN 'Failed' THEN 0 ELSE w.reclaims END,
            due_at = CASE
                WHEN s.outcome = 'Failed' THEN clock_timestamp() + s.wait
                WHEN s.wait > interval '0' THEN greatest(w.due_at, clock_timestamp() + s.wait)
                ELSE w.due_at
            END,
            last_error = CASE s.outcome WHEN 'Failed' THEN s.error ELSE w.last_error END,
            fence = NULL, lease_until = NULL, claimed_by = NULL
        FROM said AS s
        WHERE w.id = s.id AND (s.outcome = 'PutBack' OR s.outcome = 'Failed' AND s.wait IS NOT NULL)
        RETURNING w.id
    )
    SELECT g.id FROM gone AS g UNION ALL SELECT a.id FROM again AS a;
END $$;

-- Failed attempts, one error and one `retry_in` for each: how long from now, on the database's clock, until the next
-- attempt. Null gives the row up: it moves to dead_items in this very statement.
CREATE FUNCTION soloist.fail(ids bigint[], fences bigint[], errors text[], retry_in interval[]) RETURNS SETOF bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
    SELECT soloist.settle(ids, fences, array_fill('Failed'::text, ARRAY[coalesce(cardinality(ids), 0)]), errors, retry_in)
$$;

-- One claim, inside the application's own transaction: where it is lost they raise SO001, and nothing of the
-- transaction stays.

CREATE FUNCTION soloist.claim_is_lost(id bigint, fence bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'the claim of row % under fence % is lost', claim_is_lost.id, claim_is_lost.fence
        USING ERRCODE = 'SO001', HINT = 'Roll back. The row was handed to another worker, cancelled or finished.';
END $$;

CREATE FUNCTION soloist.complete_or_raise(id bigint, fence bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM soloist.complete(ARRAY[complete_or_raise.id], ARRAY[complete_or_raise.fence]);
    IF NOT FOUND THEN
        PERFORM soloist.claim_is_lost(complete_or_raise.id, complete_or_raise.fence);
    END IF;
END $$;

CREATE FUNCTION soloist.renew_or_raise(id bigint, fence bigint, lease interval) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM soloist.renew(ARRAY[renew_or_raise.id], ARRAY[renew_or_raise.fence], lease);
    IF NOT FOUND THEN
        PERFORM soloist.claim_is_lost(renew_or_raise.id, renew_or_raise.fence);
    END IF;
END $$;

CREATE FUNCTION soloist.release_or_raise(id bigint, fence bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM soloist.release(ARRAY[release_or_raise.id], ARRAY[release_or_raise.fence]);
    IF NOT FOUND THEN
        PERFORM soloist.claim_is_lost(release_or_raise.id, release_or_raise.fence);
    END IF;
END $$;

CREATE FUNCTION soloist.fail_or_raise(id bigint, fence bigint, error text, retry_in interval) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM soloist.fail(ARRAY[fail_or_raise.id], ARRAY[fail_or_raise.fence], ARRAY[error], ARRAY[retry_in]);
    IF NOT FOUND THEN
        PERFORM soloist.claim_is_lost(fail_or_raise.id, fail_or_raise.fence);
    END IF;
END $$;
