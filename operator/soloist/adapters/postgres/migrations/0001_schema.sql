-- The schema, the record of what was applied to it, the fence, and who leads.
--
-- A fence is handed out once, for ever. The sequence is CACHE 1, so that numbers rise in the order they are handed out,
-- and it is kept at or above the microseconds since 1970. It gains less than one number in a microsecond, so whatever
-- was handed out before a dump, a backup or a failover lies below the time at which it was restored.

DO $$
BEGIN
    -- CREATE SCHEMA IF NOT EXISTS asks for the right to create one even where it is there already.
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'soloist') THEN
        CREATE SCHEMA soloist;
    END IF;
END $$;

CREATE TABLE soloist.migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp()
);

CREATE SEQUENCE soloist.fence AS bigint CACHE 1 NO CYCLE;

-- Lifts the fence to the present where it is more than 0.1 s behind, and says where it is. Cheap where it is not.
-- Two lifts at once could set it back, hence the lock. Held until the end of a caller's long transaction it would hold
-- up every other claim; as a lock of the session it would stay with an idle one where a cancel meets its grant. So it is
-- taken in a block that always ends by an error, its own or a cancel: that gives back what the block locked, and leaves
-- what setval wrote and what the variables hold.
CREATE FUNCTION soloist.lift_fence() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    present bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    reached bigint := (SELECT f.last_value FROM soloist.fence AS f);
BEGIN
    IF reached >= present - 100000 THEN
        RETURN reached;
    END IF;
    BEGIN
        PERFORM pg_advisory_xact_lock(730945321600001);
        present := extract(epoch FROM clock_timestamp()) * 1000000;
        reached := (SELECT f.last_value FROM soloist.fence AS f);
        IF reached < present THEN
            reached := setval('soloist.fence', present);
        END IF;
        RAISE SQLSTATE 'SO005';
    EXCEPTION WHEN SQLSTATE 'SO005' THEN
        NULL;
    END;
    RETURN reached;
END $$;

CREATE FUNCTION soloist.next_fence() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM soloist.lift_fence();
    RETURN nextval('soloist.fence');
END $$;

CREATE TABLE soloist.leader_epoch (
    shard text PRIMARY KEY,
    epoch bigint NOT NULL,
    holder text NOT NULL DEFAULT '',
    taken_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp()
);

-- Makes `epoch` the shard's, unless a later one is there; gives the epoch that holds now, so equal means taken.
CREATE FUNCTION soloist.take_epoch(shard text, epoch bigint, holder text DEFAULT '') RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO soloist.leader_epoch AS l (shard, epoch, holder)
    VALUES (take_epoch.shard, take_epoch.epoch, take_epoch.holder)
    ON CONFLICT ON CONSTRAINT leader_epoch_pkey DO UPDATE
        SET epoch = excluded.epoch, holder = excluded.holder, taken_at = clock_timestamp()
        WHERE l.epoch < excluded.epoch;
    RETURN (SELECT l.epoch FROM soloist.leader_epoch AS l WHERE l.shard = take_epoch.shard);
END $$;

-- The last statement before COMMIT of what a leader does: raises SO002 unless the shard's epoch is this one, and keeps
-- it so until the transaction ends. FOR KEY SHARE would not: it lets the epoch be updated.
CREATE FUNCTION soloist.check_epoch(shard text, epoch bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM soloist.leader_epoch AS l
    WHERE l.shard = check_epoch.shard AND l.epoch = check_epoch.epoch
    FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'epoch % of shard "%" is over: another leader took it', check_epoch.epoch, check_epoch.shard
            USING ERRCODE = 'SO002', HINT = 'Roll back. The effect belongs to the leader of the present epoch.';
    END IF;
END $$;
