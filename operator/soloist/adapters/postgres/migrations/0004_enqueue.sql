-- Queues whose workers want to be told of new rows, each until a time that they move on for as long as they live. Nobody
-- is notified without: a transaction that notifies holds up the others of the whole server for a moment at its commit.
CREATE TABLE soloist.listening (
    queue text PRIMARY KEY,
    until timestamp with time zone NOT NULL
);

-- Tells the workers of a queue, at the commit of the caller, that a row of theirs is due; once, however often it is called
-- in one transaction. For triggers on a table of the application's own; enqueue does it by itself.
CREATE FUNCTION soloist.wake(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM soloist.listening AS l WHERE l.queue = wake.queue AND l.until > clock_timestamp()) THEN
        PERFORM pg_notify('soloist', wake.queue);
    END IF;
END $$;

-- One row to do, in the caller's own transaction: it is there if and only if that commits. Gives its id, or null where
-- a row with that unique_key is waiting or under way in the queue.
CREATE FUNCTION soloist.enqueue(
    queue text,
    payload jsonb,
    due_at timestamp with time zone DEFAULT NULL,
    unique_key text DEFAULT NULL,
    priority integer DEFAULT 1
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    made bigint;
BEGIN
    INSERT INTO soloist.work_items AS w (queue, payload, due_at, unique_key, priority)
    VALUES (enqueue.queue, enqueue.payload, coalesce(enqueue.due_at, now()), enqueue.unique_key, enqueue.priority)
    ON CONFLICT DO NOTHING
    RETURNING w.id INTO made;
    IF made IS NOT NULL AND coalesce(enqueue.due_at, now()) <= clock_timestamp() THEN
        PERFORM soloist.wake(enqueue.queue);
    END IF;
    RETURN made;
END $$;

-- Many at once. `due_at` and `priority` hold for all of them; `unique_keys`, where given, is as long as `payloads`.
-- Gives the ids of the rows that were made; those whose key was there already are left out.
CREATE FUNCTION soloist.enqueue_many(
    queue text,
    payloads jsonb[],
    due_at timestamp with time zone DEFAULT NULL,
    unique_keys text[] DEFAULT NULL,
    priority integer DEFAULT 1
) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF unique_keys IS NOT NULL AND cardinality(unique_keys) <> cardinality(payloads) THEN
        RAISE EXCEPTION 'there are % payloads and % unique_keys', cardinality(payloads), cardinality(unique_keys)
            USING ERRCODE = '22023', HINT = 'Give one key for each payload, null for those without, or no array at all.';
    END IF;
    IF coalesce(enqueue_many.due_at, now()) <= clock_timestamp() THEN
        PERFORM soloist.wake(enqueue_many.queue);
    END IF;
    IF unique_keys IS NULL THEN
        RETURN QUERY
        INSERT INTO soloist.work_items AS w (queue, payload, due_at, priority)
        SELECT enqueue_many.queue, p.payload, coalesce(enqueue_many.due_at, now()), enqueue_many.priority
        FROM unnest(payloads) AS p(payload)
        RETURNING w.id;
        RETURN;
    END IF;
    -- In the order of the keys, so that two transactions with the same keys wait for each other instead of deadlocking.
    RETURN QUERY
    INSERT INTO soloist.work_items AS w (queue, payload, due_at, unique_key, priority)
    SELECT enqueue_many.queue, p.payload, coalesce(enqueue_many.due_at, now()), p.key, enqueue_many.priority
    FROM unnest(payloads, unique_keys) AS p(payload, key)
    ORDER BY p.key
    ON CONFLICT DO NOTHING
    RETURNING w.id;
END $$;
