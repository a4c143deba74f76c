-- For effects that an application writes in a transaction of its own.

CREATE TABLE soloist.once (
    key text PRIMARY KEY,
    fence bigint NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp()
);

CREATE TABLE soloist.checkpoints (
    name text PRIMARY KEY,
    value jsonb,
    fence bigint NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp()
);

-- The first statement of a transaction: true the first time, so go on; false on a repeat, so end; SO002 where a later
-- fence has been here, so whoever asks was replaced. Waits for a transaction that is at the same key.
CREATE FUNCTION soloist.once(key text, fence bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO soloist.once (key, fence) VALUES (once.key, once.fence)
    ON CONFLICT ON CONSTRAINT once_pkey DO NOTHING;
    IF FOUND THEN
        RETURN true;
    END IF;
    UPDATE soloist.once AS o SET fence = once.fence, at = clock_timestamp()
    WHERE o.key = once.key AND o.fence <= once.fence;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fence % is older than the one that "%" was last asked under', once.fence, once.key
            USING ERRCODE = 'SO002', HINT = 'Roll back. The work was handed to somebody else.';
    END IF;
    RETURN false;
END $$;

-- Keeps a cursor under a name; SO002 where a later fence wrote it.
CREATE FUNCTION soloist.checkpoint(name text, value jsonb, fence bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO soloist.checkpoints AS c (name, value, fence)
    VALUES (checkpoint.name, checkpoint.value, checkpoint.fence)
    ON CONFLICT ON CONSTRAINT checkpoints_pkey DO UPDATE
        SET value = excluded.value, fence = excluded.fence, at = clock_timestamp()
        WHERE c.fence <= excluded.fence;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fence % is older than the one that wrote checkpoint "%"', checkpoint.fence, checkpoint.name
            USING ERRCODE = 'SO002', HINT = 'Roll back and stop. Somebody else goes on from there.';
    END IF;
END $$;

-- The value last kept, null where there is none.
CREATE FUNCTION soloist.checkpoint(name text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT c.value FROM soloist.checkpoints AS c WHERE c.name = checkpoint.name);
END $$;

-- Forgets keys not asked for since `keep`; choose it longer than anything is retried. Says how many.
CREATE FUNCTION soloist.prune_once(keep interval, up_to integer DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM soloist.once AS o WHERE o.key = ANY (ARRAY(
        SELECT p.key FROM soloist.once AS p WHERE p.at < clock_timestamp() - keep
        LIMIT up_to FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;
