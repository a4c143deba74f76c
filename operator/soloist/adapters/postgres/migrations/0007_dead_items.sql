-- Rows that are no longer wanted, and rows that were given up. Each moves or goes in one statement, so nothing can be
-- lost or doubled in between. And how many of each kind there are.

-- Takes rows out, also one that is being worked: its worker finds its claim lost. Gives the ids that were there.
CREATE FUNCTION soloist.cancel(ids bigint[]) RETURNS SETOF bigint
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
    USING (SELECT DISTINCT a.id FROM unnest(ids) AS a(id) ORDER BY 1) AS c
    WHERE w.id = c.id
    RETURNING w.id;
END $$;

CREATE FUNCTION soloist.cancel_key(queue text, unique_key text) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    DELETE FROM soloist.work_items AS w
    WHERE w.queue = cancel_key.queue AND w.unique_key = cancel_key.unique_key
    RETURNING w.id;
END $$;

-- Back to work, due now, with a fresh budget of tries; the attempt number goes on, so that the receiver takes it for a
-- new attempt, except for one that was interrupted or refused: that attempt may have arrived, so it keeps its key.
-- A row whose unique_key is in use again stays dead.
CREATE FUNCTION soloist.retry_dead(ids bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    WITH chosen AS MATERIALIZED (
        -- The lock makes a second retry of the same row wait, and then find it gone.
        SELECT d.* FROM soloist.dead_items AS d WHERE d.id = ANY (ids) ORDER BY d.id FOR UPDATE
    ), back AS (
        INSERT INTO soloist.work_items AS w (
            id, due_at, created_at, attempt, retry_base, priority, queue, unique_key, last_error, payload
        )
        OVERRIDING SYSTEM VALUE
        SELECT
            c.id, clock_timestamp(), c.created_at, c.attempt, c.attempt - 1, c.priority, c.queue, c.unique_key,
            c.last_error, c.payload
        FROM chosen AS c
        ON CONFLICT DO NOTHING
        RETURNING w.id
    )
    DELETE FROM soloist.dead_items AS d USING back AS b WHERE d.id = b.id RETURNING d.id;
END $$;

-- The oldest `up_to` of a queue.
CREATE FUNCTION soloist.retry_dead(queue text, up_to integer DEFAULT 1000) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT * FROM soloist.retry_dead(ARRAY(
        SELECT d.id FROM soloist.dead_items AS d WHERE d.queue = retry_dead.queue ORDER BY d.died_at LIMIT up_to
    ));
END $$;

CREATE FUNCTION soloist.purge_dead(ids bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY DELETE FROM soloist.dead_items AS d WHERE d.id = ANY (ids) RETURNING d.id;
END $$;

-- Those of a queue that have been dead for longer than `older_than`.
CREATE FUNCTION soloist.purge_dead(queue text, older_than interval) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    DELETE FROM soloist.dead_items AS d
    WHERE d.queue = purge_dead.queue AND d.died_at < clock_timestamp() - older_than
    RETURNING d.id;
END $$;

-- How much there is to do in each of `queues`: due and free, due later, in a worker's hands, for how long the one that
-- waits longest could have been had (seconds; null where none waits), and given up. A count ends at `most` for each
-- priority, and `whole` is false where one did. What is in hand is found at the head of what is due, where claims take
-- rows from: the look ends where 500 in a row are free.
CREATE FUNCTION soloist.depths(queues text[], most integer DEFAULT 100000) RETURNS TABLE (
    queue text, ready bigint, scheduled bigint, in_flight bigint, oldest_due double precision, dead bigint, whole boolean
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    at timestamp with time zone := clock_timestamp();
    level smallint;
    counted bigint;
    free integer;
    item record;
    oldest timestamp with time zone;
BEGIN
    FOREACH queue IN ARRAY queues LOOP
        ready := 0; scheduled := 0; in_flight := 0; whole := true; oldest := NULL;
        FOR level IN 0..3 LOOP
            SELECT count(*) INTO counted FROM (
                SELECT FROM soloist.work_items AS i
                WHERE i.queue = queue AND i.priority = level AND i.due_at <= at LIMIT most
            ) AS due;
            ready := ready + counted; whole := whole AND counted < most;
            SELECT count(*) INTO counted FROM (
                SELECT FROM soloist.work_items AS i
                WHERE i.queue = queue AND i.priority = level AND i.due_at > at LIMIT most
            ) AS later;
            scheduled := scheduled + counted; whole := whole AND counted < most;
            free := 0;
            FOR item IN
                SELECT greatest(i.due_at, i.created_at) AS since, i.lease_until FROM soloist.work_items AS i
                WHERE i.queue = queue AND i.priority = level AND i.due_at <= at ORDER BY i.due_at, i.id
            LOOP
                IF item.lease_until > at THEN
                    in_flight := in_flight + 1; free := 0;
                ELSE
                    oldest := least(oldest, item.since); free := free + 1;
                    EXIT WHEN free = 500;
                END IF;
            END LOOP;
        END LOOP;
        ready := greatest(ready - in_flight, 0);
        oldest_due := CASE WHEN oldest IS NOT NULL THEN greatest(extract(epoch FROM at - oldest), 0) END;
        SELECT count(*) INTO dead FROM (
            SELECT FROM soloist.dead_items AS d WHERE d.queue = queue LIMIT most
        ) AS given_up;
        whole := whole AND dead < most;
        RETURN NEXT;
    END LOOP;
END $$;
