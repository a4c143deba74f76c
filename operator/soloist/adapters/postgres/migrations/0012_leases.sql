-- Who leads where there is no API server: the document that a Lease is there, in a row, with a version as precondition.
--
-- Whoever writes it with a new epoch takes that epoch of the shard in the same transaction. So from the moment somebody
-- leads, no transaction of an earlier term commits in this database.

CREATE TABLE soloist.leases (
    shard text PRIMARY KEY,
    uid uuid NOT NULL DEFAULT pg_catalog.gen_random_uuid(),
    version bigint NOT NULL,
    lease jsonb NOT NULL
) WITH (fillfactor = 50);

-- The lease if it is as it was read, by uid and version; with neither, a new one. No row: somebody else wrote in between.
-- A version is a time in microseconds, or more: a database that lost its last writes gives none of their versions again.
-- Whoever waits for a lock gives up soon, since a holder may not wait longer than it may trust itself.
CREATE FUNCTION soloist.write_lease(shard text, uid uuid, version bigint, lease jsonb)
RETURNS TABLE (lease_uid uuid, lease_version bigint, at timestamp with time zone)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
AS $$
DECLARE
    present bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    said text := write_lease.lease #>> '{metadata,annotations,soloist.dev/epoch}';
    former jsonb;
    held bigint;
BEGIN
    IF write_lease.uid IS NULL THEN
        INSERT INTO soloist.leases AS l (shard, version, lease)
        VALUES (write_lease.shard, present, write_lease.lease)
        ON CONFLICT ON CONSTRAINT leases_pkey DO NOTHING
        RETURNING l.uid, l.version INTO lease_uid, lease_version;
    ELSE
        SELECT l.lease INTO former FROM soloist.leases AS l
        WHERE l.shard = write_lease.shard AND l.uid = write_lease.uid AND l.version = write_lease.version
        FOR NO KEY UPDATE;
        UPDATE soloist.leases AS l SET lease = write_lease.lease, version = greatest(l.version + 1, present)
        WHERE l.shard = write_lease.shard AND l.uid = write_lease.uid AND l.version = write_lease.version
        RETURNING l.uid, l.version INTO lease_uid, lease_version;
    END IF;
    IF lease_uid IS NULL THEN
        RETURN;
    END IF;
    IF said ~ '^[0-9]{1,18}$' AND said::bigint > 0 THEN
        -- A renewal finds it taken, and must not lock it: transactions that check it do.
        held := (SELECT e.epoch FROM soloist.leader_epoch AS e WHERE e.shard = write_lease.shard);
        IF held IS DISTINCT FROM said::bigint THEN
            held := soloist.take_epoch(write_lease.shard, said::bigint, coalesce(write_lease.lease #>> '{spec,holderIdentity}', ''));
        END IF;
        IF held <> said::bigint THEN
            RAISE EXCEPTION 'the lease of shard "%" has epoch %, and the database knows a later one, %',
                write_lease.shard, said, held
                USING ERRCODE = 'SO002', HINT = 'The row of the lease was deleted or restored. Epochs are times: wait until the clock has passed the later one.';
        END IF;
    END IF;
    IF former #> '{spec,holderIdentity}' IS DISTINCT FROM write_lease.lease #> '{spec,holderIdentity}'
        OR former #> '{metadata,annotations,soloist.dev/paused}'
            IS DISTINCT FROM write_lease.lease #> '{metadata,annotations,soloist.dev/paused}'
    THEN
        PERFORM pg_notify('soloist_changes', 'lease - ' || write_lease.shard);
    END IF;
    at := clock_timestamp();
    RETURN NEXT;
END $$;
