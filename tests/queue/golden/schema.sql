CREATE SCHEMA soloist;

CREATE FUNCTION soloist.all_written(wanted bigint, written bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF wanted <> written THEN
        RAISE EXCEPTION 'a trigger or rule of the table let % of % outcomes vanish', wanted - written, wanted
            USING ERRCODE = 'SO003', HINT = 'Let its function give back NEW.';
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION soloist.allow_enqueue(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA soloist TO %I', role);
    EXECUTE format('GRANT INSERT, SELECT (id, queue, unique_key) ON soloist.work_items TO %I', role);
    EXECUTE format('GRANT SELECT ON soloist.listening TO %I', role);
END $$;

CREATE FUNCTION soloist.allow_standalone(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM soloist.allow_work(role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON soloist.leases, soloist.shards, soloist.objects TO %I', role);
END $$;

CREATE FUNCTION soloist.allow_work(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA soloist TO %I', role);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON soloist.work_items, soloist.dead_items, soloist.leader_epoch, '
        'soloist.job_runs, soloist.job_ticks, soloist.once, soloist.checkpoints, soloist.sources, soloist.claims, '
        'soloist.dead_rows, soloist.listening TO %I', role);
    EXECUTE format('GRANT SELECT ON soloist.migrations, soloist.mapped_queues TO %I', role);
    EXECUTE format('GRANT SELECT, UPDATE ON SEQUENCE soloist.fence TO %I', role);
    EXECUTE format('GRANT USAGE ON SEQUENCE soloist.work_items_id_seq TO %I', role);
END $$;

CREATE FUNCTION soloist.annotate_object(shard text, writer text, kind text, namespace text, name text, annotations jsonb) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    now_at bigint := soloist.next_version(shard);
    there boolean;
BEGIN
    UPDATE soloist.objects AS o SET
        version = now_at, writer = annotate_object.writer, edited_at = clock_timestamp(),
        metadata = soloist.merged(o.metadata, jsonb_build_object('annotations', annotations))
    WHERE o.shard = annotate_object.shard AND o.kind = annotate_object.kind
        AND o.namespace = annotate_object.namespace AND o.name = annotate_object.name;
    there := FOUND;
    PERFORM pg_notify('soloist_changes', format('objects %s %s', writer, shard));
    RETURN there;
END $$;

CREATE FUNCTION soloist.apply_objects(shard text, writer text, epoch bigint, kinds text[], objects jsonb, hash text) RETURNS TABLE(made bigint, changed bigint, removed bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    now_at bigint := soloist.next_version(apply_objects.shard);
    gone text[];
BEGIN
    WITH asked AS (
        SELECT * FROM jsonb_to_recordset(objects) AS a(kind text, namespace text, name text)
    ), deleted AS (
        DELETE FROM soloist.objects AS o
        WHERE o.shard = apply_objects.shard AND o.kind = ANY (kinds)
            AND NOT EXISTS (SELECT FROM asked AS a WHERE a.kind = o.kind AND a.namespace = o.namespace AND a.name = o.name)
        RETURNING o.uid
    )
    SELECT coalesce(array_agg(d.uid::text), '{}'), count(*) INTO gone, removed FROM deleted AS d;
    IF removed > 0 THEN
        -- By one look at each object, however many owners have gone.
        DELETE FROM soloist.objects AS o
        WHERE o.shard = apply_objects.shard AND o.metadata ? 'ownerReferences' AND EXISTS (
            SELECT FROM jsonb_array_elements(o.metadata -> 'ownerReferences') AS r(owner)
            WHERE r.owner ->> 'uid' = ANY (gone)
        );
    END IF;
    WITH asked AS (
        SELECT * FROM jsonb_to_recordset(objects) AS a(kind text, namespace text, name text, given jsonb, spec jsonb)
    ), edited AS (
        UPDATE soloist.objects AS o SET
            version = now_at, writer = apply_objects.writer, edited_at = clock_timestamp(), spec = a.spec, given = a.given,
            generation = o.generation + CASE WHEN o.spec = a.spec THEN 0 ELSE 1 END,
            metadata = soloist.merged(soloist.merged(o.metadata, soloist.emptied(o.given)), a.given)
        FROM asked AS a
        WHERE o.shard = apply_objects.shard AND o.kind = a.kind
            AND o.namespace = a.namespace AND o.name = a.name
            AND (o.spec <> a.spec OR o.given <> a.given)
        RETURNING 1
    ), added AS (
        INSERT INTO soloist.objects AS o (shard, kind, namespace, name, version, writer, metadata, given, spec)
        SELECT apply_objects.shard, a.kind, a.namespace, a.name, now_at, apply_objects.writer, a.given, a.given,
            a.spec
        FROM asked AS a
        ON CONFLICT ON CONSTRAINT objects_pkey DO NOTHING
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM added), (SELECT count(*) FROM edited) INTO made, changed;
    UPDATE soloist.shards AS s SET specs = hash, specs_of = apply_objects.writer, specs_at = clock_timestamp()
    WHERE s.shard = apply_objects.shard AND hash IS NOT NULL AND s.specs IS DISTINCT FROM hash;
    IF made + changed + removed > 0 THEN
        PERFORM pg_notify('soloist_changes', format(
            '%s %s %s', CASE WHEN removed > 0 THEN 'removed' ELSE 'objects' END, apply_objects.writer, apply_objects.shard
        ));
    END IF;
    PERFORM soloist.check_epoch(apply_objects.shard, apply_objects.epoch);
    RETURN NEXT;
END $$;

CREATE FUNCTION soloist.cancel(ids bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN QUERY
    DELETE FROM soloist.work_items AS w
    USING (SELECT DISTINCT a.id FROM unnest(ids) AS a(id) ORDER BY 1) AS c
    WHERE w.id = c.id
    RETURNING w.id;
END $$;

CREATE FUNCTION soloist.cancel_key(queue text, unique_key text) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY
    DELETE FROM soloist.work_items AS w
    WHERE w.queue = cancel_key.queue AND w.unique_key = cancel_key.unique_key
    RETURNING w.id;
END $$;

CREATE FUNCTION soloist.cancel_rows(queue text, pks text[]) RETURNS SETOF text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    q soloist.mapped_queues := soloist.mapped_queue(queue);
    gone text;
    keys text[] := '{}';
BEGIN
    IF q.cancel IS NULL THEN
        RAISE EXCEPTION 'the rows of queue "%" are its application''s to move', queue
            USING ERRCODE = '0A000', HINT = 'Give the row another status or due time, or delete it.';
    END IF;
    FOR gone IN EXECUTE q.cancel USING ARRAY(SELECT DISTINCT a.pk FROM unnest(pks) AS a(pk)), clock_timestamp()
    LOOP
        keys := keys || gone;
    END LOOP;
    DELETE FROM soloist.claims AS k WHERE k.key = ANY (keys);
    DELETE FROM soloist.dead_rows AS d WHERE d.key = ANY (keys);
    RETURN QUERY SELECT substr(a.key, length(q.source::text) + 2) FROM unnest(keys) AS a(key);
END $$;

CREATE FUNCTION soloist.check_epoch(shard text, epoch bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.checkpoint(name text) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN (SELECT c.value FROM soloist.checkpoints AS c WHERE c.name = checkpoint.name);
END $$;

CREATE FUNCTION soloist.checkpoint(name text, value jsonb, fence bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.claim(queue text, n integer DEFAULT 1, lease interval DEFAULT '00:01:00'::interval, worker text DEFAULT NULL::text, max_reclaims integer DEFAULT 5, hold boolean DEFAULT false, after_due timestamp with time zone DEFAULT NULL::timestamp with time zone, after_id bigint DEFAULT NULL::bigint, after_priority integer DEFAULT 3, spare boolean DEFAULT false, doomed boolean DEFAULT false) RETURNS TABLE(id bigint, fence bigint, attempt integer, tries integer, reclaims integer, priority smallint, due_at timestamp with time zone, lease_until timestamp with time zone, unique_key text, payload jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
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

CREATE FUNCTION soloist.claim_is_lost(id bigint, fence bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'the claim of row % under fence % is lost', claim_is_lost.id, claim_is_lost.fence
        USING ERRCODE = 'SO001', HINT = 'Roll back. The row was handed to another worker, cancelled or finished.';
END $$;

CREATE FUNCTION soloist.claim_rows(queue text, n integer DEFAULT 1, lease interval DEFAULT '00:01:00'::interval, worker text DEFAULT NULL::text) RETURNS TABLE(pk text, fence bigint, attempt integer, tries integer, reclaims integer, due_at timestamp with time zone, payload text, columns jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $_$
DECLARE
    q soloist.mapped_queues := soloist.mapped_queue(queue);
    left_to_claim integer := n;
    got integer;
    most bigint;
    over_reason text;
    over_pks text[];
    over_fences bigint[];
    over_reasons text[];
    over_errors text[];
BEGIN
    IF n IS NULL OR n NOT BETWEEN 1 AND 500 THEN
        RAISE EXCEPTION 'n is %, and a claim takes 1 to 500 rows', n
            USING ERRCODE = '22023', HINT = 'Claim again at once as long as a claim comes back full.';
    ELSIF lease IS NULL OR lease <= interval '0' THEN
        RAISE EXCEPTION 'lease is %, and has to be longer than nothing', lease
            USING ERRCODE = '22023', HINT = 'Give an interval such as ''60 seconds''.';
    END IF;
    FOR pass IN 1..greatest(4, 500 / n) LOOP
        got := 0;
        over_pks := '{}'; over_fences := '{}'; over_reasons := '{}'; over_errors := '{}';
        -- One status goes first, by chance, or the last of several would starve.
        FOR fence, reclaims, attempt, tries, due_at, pk, payload, columns IN
            EXECUTE q.claims[1 + floor(random() * cardinality(q.claims))::integer]
            USING left_to_claim, lease, worker, clock_timestamp()
        LOOP
            got := got + 1;
            most := q.max_attempts;
            IF q.attempts_column IS NOT NULL AND columns ->> q.attempts_column ~ '^[0-9]{1,9}$' THEN
                most := (columns ->> q.attempts_column)::bigint;
            END IF;
            over_reason := CASE
                WHEN q.hold AND reclaims > 0 THEN 'Interrupted'
                WHEN reclaims > q.max_reclaims THEN 'ReclaimedTooOften'
                WHEN tries > most THEN 'Spent'
            END;
            IF over_reason IS NULL THEN
                left_to_claim := left_to_claim - 1;
                RETURN NEXT;
                CONTINUE;
            END IF;
            over_pks := over_pks || pk;
            over_fences := over_fences || fence;
            over_reasons := over_reasons || over_reason;
            over_errors := over_errors || CASE over_reason
                WHEN 'Interrupted' THEN 'Its claim ended without an outcome, and the queue holds such rows for a person.'
                WHEN 'Spent' THEN format('All %s attempts were used up before it was claimed.', most)
                ELSE format('%s claims in a row ended without an outcome.', reclaims)
            END;
        END LOOP;
        IF over_pks <> '{}' THEN
            PERFORM FROM soloist.settle_rows(queue, over_pks, over_fences, over_reasons, over_errors);
        END IF;
        EXIT WHEN over_pks = '{}' OR left_to_claim = 0;
    END LOOP;
END $_$;

CREATE FUNCTION soloist.complete(ids bigint[], fences bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN QUERY
    DELETE FROM soloist.work_items AS w
    USING (SELECT * FROM unnest(ids, fences) AS a(id, fence) ORDER BY 1) AS c
    WHERE w.id = c.id AND w.fence = c.fence
    RETURNING w.id;
END $$;

CREATE FUNCTION soloist.complete_or_raise(id bigint, fence bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM soloist.complete(ARRAY[complete_or_raise.id], ARRAY[complete_or_raise.fence]);
    IF NOT FOUND THEN
        PERFORM soloist.claim_is_lost(complete_or_raise.id, complete_or_raise.fence);
    END IF;
END $$;

CREATE FUNCTION soloist.complete_row(queue text, pk text, fence bigint) RETURNS text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT soloist.settle_row_or_raise(queue, pk, fence, 'Done') $$;

CREATE FUNCTION soloist.depths(queues text[], most integer DEFAULT 100000) RETURNS TABLE(queue text, ready bigint, scheduled bigint, in_flight bigint, oldest_due double precision, dead bigint, whole boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
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

CREATE FUNCTION soloist.emptied(given jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN (
        SELECT coalesce(jsonb_object_agg(e.key, CASE WHEN jsonb_typeof(e.value) = 'object'
            THEN soloist.emptied(e.value) ELSE 'null' END), '{}')
        FROM jsonb_each(given) AS e
    );
END $$;

CREATE FUNCTION soloist.enqueue(queue text, payload jsonb, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, unique_key text DEFAULT NULL::text, priority integer DEFAULT 1) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.enqueue_many(queue text, payloads jsonb[], due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, unique_keys text[] DEFAULT NULL::text[], priority integer DEFAULT 1) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.enqueue_new_runs(epoch bigint, runs jsonb) RETURNS TABLE(n integer, said text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_nestloop TO 'off'
    SET jit TO 'off'
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

CREATE FUNCTION soloist.enqueue_runs(shard text, epoch bigint, term text, wait text, runs jsonb) RETURNS TABLE(n integer, said text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.fail(ids bigint[], fences bigint[], errors text[], retry_in interval[]) RETURNS SETOF bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT soloist.settle(ids, fences, array_fill('Failed'::text, ARRAY[coalesce(cardinality(ids), 0)]), errors, retry_in)
$$;

CREATE FUNCTION soloist.fail_or_raise(id bigint, fence bigint, error text, retry_in interval) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM soloist.fail(ARRAY[fail_or_raise.id], ARRAY[fail_or_raise.fence], ARRAY[error], ARRAY[retry_in]);
    IF NOT FOUND THEN
        PERFORM soloist.claim_is_lost(fail_or_raise.id, fail_or_raise.fence);
    END IF;
END $$;

CREATE FUNCTION soloist.fail_row(queue text, pk text, fence bigint, error text, retry_in interval) RETURNS text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT soloist.settle_row_or_raise(queue, pk, fence, 'Failed', error, retry_in) $$;

CREATE FUNCTION soloist.lift_fence() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE TABLE soloist.mapped_queues (
    queue text NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    source integer NOT NULL,
    hold boolean NOT NULL,
    handler boolean NOT NULL,
    max_reclaims integer NOT NULL,
    max_attempts integer NOT NULL,
    attempts_column text,
    waits interval[] NOT NULL,
    jitter double precision NOT NULL,
    claims text[] NOT NULL,
    lock text NOT NULL,
    renew text NOT NULL,
    settle text NOT NULL,
    retry text NOT NULL,
    cancel text
);

COMMENT ON COLUMN soloist.mapped_queues.attempts_column IS 'Where a row holds its own limit of attempts.';

COMMENT ON COLUMN soloist.mapped_queues.waits IS 'Between attempts, for rows that their application was to move and did not.';

COMMENT ON COLUMN soloist.mapped_queues.cancel IS 'Null where the application moves the rows.';

CREATE FUNCTION soloist.mapped_queue(queue text) RETURNS soloist.mapped_queues
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    found_one soloist.mapped_queues;
BEGIN
    SELECT * INTO found_one FROM soloist.mapped_queues AS q WHERE q.queue = mapped_queue.queue;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'queue "%" is not registered', mapped_queue.queue
            USING ERRCODE = '42704', HINT = 'Run soloist queue register, as the owner of the schema soloist.';
    END IF;
    RETURN found_one;
END $$;

CREATE FUNCTION soloist.merged(old jsonb, patch jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    result jsonb := CASE WHEN jsonb_typeof(old) = 'object' THEN old ELSE '{}' END;
    named text;
    said jsonb;
BEGIN
    IF jsonb_typeof(patch) <> 'object' THEN
        RETURN patch;
    END IF;
    FOR named, said IN SELECT * FROM jsonb_each(patch) LOOP
        CASE jsonb_typeof(said)
            WHEN 'null' THEN result := result - named;
            WHEN 'object' THEN
                result := jsonb_set(result, ARRAY[named], soloist.merged(result -> named, said));
            ELSE result := jsonb_set(result, ARRAY[named], said);
        END CASE;
    END LOOP;
    RETURN result;
END $$;

CREATE FUNCTION soloist.next_fence() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM soloist.lift_fence();
    RETURN nextval('soloist.fence');
END $$;

CREATE FUNCTION soloist.next_version(shard text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    present bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    given bigint;
BEGIN
    INSERT INTO soloist.shards AS s (shard, version) VALUES (next_version.shard, present)
    ON CONFLICT ON CONSTRAINT shards_pkey DO UPDATE SET version = greatest(s.version + 1, present)
    RETURNING s.version INTO given;
    RETURN given;
END $$;

CREATE FUNCTION soloist.once(key text, fence bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.prune_once(keep interval, up_to integer DEFAULT 10000) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.prune_runs(keep interval, up_to integer DEFAULT 10000) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.purge_dead(ids bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY DELETE FROM soloist.dead_items AS d WHERE d.id = ANY (ids) RETURNING d.id;
END $$;

CREATE FUNCTION soloist.purge_dead(queue text, older_than interval) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY
    DELETE FROM soloist.dead_items AS d
    WHERE d.queue = purge_dead.queue AND d.died_at < clock_timestamp() - older_than
    RETURNING d.id;
END $$;

CREATE FUNCTION soloist.reclaim(claims tid[], at timestamp with time zone, lease interval, max_reclaims integer, hold boolean, spare boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
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

CREATE FUNCTION soloist.record_run(job_uid text, run_key text, tick timestamp with time zone, epoch bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.release(ids bigint[], fences bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN QUERY
    UPDATE soloist.work_items AS w SET fence = NULL, lease_until = NULL, claimed_by = NULL
    FROM (SELECT * FROM unnest(ids, fences) AS a(id, fence) ORDER BY 1) AS c
    WHERE w.id = c.id AND w.fence = c.fence
    RETURNING w.id;
END $$;

CREATE FUNCTION soloist.release_or_raise(id bigint, fence bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM soloist.release(ARRAY[release_or_raise.id], ARRAY[release_or_raise.fence]);
    IF NOT FOUND THEN
        PERFORM soloist.claim_is_lost(release_or_raise.id, release_or_raise.fence);
    END IF;
END $$;

CREATE FUNCTION soloist.release_row(queue text, pk text, fence bigint, retry_in interval DEFAULT NULL::interval) RETURNS text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT soloist.settle_row_or_raise(queue, pk, fence, 'PutBack', NULL, retry_in) $$;

CREATE FUNCTION soloist.renew(ids bigint[], fences bigint[], lease interval) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN QUERY
    UPDATE soloist.work_items AS w SET lease_until = clock_timestamp() + lease
    FROM (SELECT * FROM unnest(ids, fences) AS a(id, fence) ORDER BY 1) AS c
    WHERE w.id = c.id AND w.fence = c.fence
    RETURNING w.id;
END $$;

CREATE FUNCTION soloist.renew_or_raise(id bigint, fence bigint, lease interval) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM soloist.renew(ARRAY[renew_or_raise.id], ARRAY[renew_or_raise.fence], lease);
    IF NOT FOUND THEN
        PERFORM soloist.claim_is_lost(renew_or_raise.id, renew_or_raise.fence);
    END IF;
END $$;

CREATE FUNCTION soloist.renew_row(queue text, pk text, fence bigint, lease interval) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM soloist.renew_rows(queue, ARRAY[renew_row.pk], ARRAY[fence], lease);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim of row % of queue "%" under fence % is lost', renew_row.pk, queue, fence
            USING ERRCODE = 'SO001', HINT = 'Roll back. The row was handed to another worker, or is finished.';
    END IF;
END $$;

CREATE FUNCTION soloist.renew_rows(queue text, pks text[], fences bigint[], lease interval) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    q soloist.mapped_queues := soloist.mapped_queue(queue);
    patience CONSTANT text := current_setting('lock_timeout');
BEGIN
    BEGIN
        PERFORM set_config('lock_timeout', '100ms', true);
        EXECUTE q.lock USING pks, fences;
        PERFORM set_config('lock_timeout', patience, true);
    EXCEPTION
        WHEN lock_not_available THEN NULL; -- Its setting is undone with it.
    END;
    RETURN QUERY EXECUTE q.renew USING pks, fences, lease, clock_timestamp();
END $$;

CREATE FUNCTION soloist.retry_dead(ids bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION soloist.retry_dead(queue text, up_to integer DEFAULT 1000) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY
    SELECT * FROM soloist.retry_dead(ARRAY(
        SELECT d.id FROM soloist.dead_items AS d WHERE d.queue = retry_dead.queue ORDER BY d.died_at LIMIT up_to
    ));
END $$;

CREATE FUNCTION soloist.retry_dead_rows(queue text, ids bigint[]) RETURNS TABLE(id bigint, back boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    q soloist.mapped_queues := soloist.mapped_queue(queue);
BEGIN
    RETURN QUERY EXECUTE q.retry USING ids, clock_timestamp();
END $$;

CREATE FUNCTION soloist.settle(ids bigint[], fences bigint[], outcomes text[], errors text[], retry_in interval[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
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

CREATE FUNCTION soloist.settle_row_or_raise(queue text, pk text, fence bigint, outcome text, error text DEFAULT NULL::text, retry_in interval DEFAULT NULL::interval) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    said text;
BEGIN
    SELECT s.verdict INTO said FROM soloist.settle_rows(
        queue, ARRAY[settle_row_or_raise.pk], ARRAY[fence], ARRAY[outcome], ARRAY[error], ARRAY[retry_in]
    ) AS s;
    IF said = 'Lost' THEN
        RAISE EXCEPTION 'the claim of row % of queue "%" under fence % is lost', settle_row_or_raise.pk, queue, fence
            USING ERRCODE = 'SO001', HINT = 'Roll back. The row was handed to another worker, or is finished.';
    ELSIF said = 'Changed' AND outcome <> 'PutBack' THEN
        RAISE EXCEPTION 'row % of queue "%" was changed or deleted while it was claimed', settle_row_or_raise.pk, queue
            USING ERRCODE = 'SO004', HINT = 'Roll back, and release the row: it is not as it was when its work began.';
    END IF;
    RETURN said;
END $$;

CREATE FUNCTION soloist.settle_rows(queue text, pks text[], fences bigint[], outcomes text[], errors text[] DEFAULT NULL::text[], retry_in interval[] DEFAULT NULL::interval[]) RETURNS TABLE(pk text, verdict text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    q soloist.mapped_queues := soloist.mapped_queue(queue);
    known CONSTANT text[] := ARRAY['Done', 'Failed', 'PutBack', 'Interrupted', 'Refused', 'ReclaimedTooOften', 'Spent'];
    dead text := CASE WHEN q.handler THEN 'Park' ELSE 'Dead' END;
    verdicts text[] := array_fill('Lost'::text, ARRAY[cardinality(pks)]);
    words text[];
    counted boolean[];
    said text[];
    waits interval[];
    reasons text[];
    written record;
BEGIN
    IF NOT outcomes <@ known OR array_position(outcomes, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'outcomes holds something else than %', known
            USING ERRCODE = '22023', HINT = 'Give one outcome for each row.';
    ELSIF cardinality(pks) <> ANY (
        ARRAY[cardinality(fences), cardinality(outcomes), cardinality(errors), cardinality(retry_in)]
    ) THEN
        RAISE EXCEPTION 'there are % rows, % fences, % outcomes, % errors and % waits',
            cardinality(pks), cardinality(fences), cardinality(outcomes), cardinality(errors), cardinality(retry_in)
            USING ERRCODE = '22023', HINT = 'Give one of each for each row, null for those without.';
    END IF;
    SELECT
        array_agg(CASE
            WHEN a.outcome IN ('Done', 'PutBack') THEN a.outcome
            WHEN a.outcome = 'Failed' AND a.wait IS NOT NULL THEN 'Again'
            WHEN a.outcome = 'Refused' THEN 'Park'
            ELSE dead
        END ORDER BY a.n),
        array_agg(a.outcome IN ('Done', 'Failed') ORDER BY a.n),
        array_agg(CASE
            WHEN a.outcome = 'Done' AND q.handler
                THEN 'The application answered that the work is done, and left the row due at the same time.'
            ELSE left(a.error, 4000)
        END ORDER BY a.n),
        array_agg(CASE
            WHEN a.outcome = 'PutBack' THEN coalesce(a.wait, interval '0')
            WHEN a.outcome <> 'Done' OR NOT q.handler THEN a.wait
            WHEN k.tries < q.max_attempts
                THEN q.waits[least(k.tries, cardinality(q.waits))] * (1 + q.jitter * (2 * random() - 1))
        END ORDER BY a.n),
        array_agg(CASE WHEN a.outcome IN ('Done', 'Spent') THEN 'Failed' ELSE a.outcome END ORDER BY a.n)
    INTO words, counted, said, waits, reasons
    FROM unnest(pks, fences, outcomes, errors, retry_in) WITH ORDINALITY AS a(pk, fence, outcome, error, wait, n)
    LEFT JOIN LATERAL (
        SELECT (coalesce(c.attempts, c.attempt) + 1 - c.retry_base)::integer AS tries
        FROM soloist.claims AS c WHERE c.key = q.source || ':' || a.pk AND c.fence = a.fence
        LIMIT 1
    ) AS k ON true;
    FOR written IN EXECUTE q.settle USING pks, fences, words, counted, said, waits, reasons, clock_timestamp()
    LOOP
        verdicts[written.n] := CASE
            WHEN q.handler AND words[written.n] = 'Done'
                THEN CASE written.outcome WHEN 'Done' THEN 'Accepted' ELSE 'StillDue' END
            WHEN written.same THEN 'Accepted'
            ELSE 'Changed'
        END;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(pks, verdicts);
END $$;

CREATE FUNCTION soloist.take_epoch(shard text, epoch bigint, holder text DEFAULT ''::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO soloist.leader_epoch AS l (shard, epoch, holder)
    VALUES (take_epoch.shard, take_epoch.epoch, take_epoch.holder)
    ON CONFLICT ON CONSTRAINT leader_epoch_pkey DO UPDATE
        SET epoch = excluded.epoch, holder = excluded.holder, taken_at = clock_timestamp()
        WHERE l.epoch < excluded.epoch;
    RETURN (SELECT l.epoch FROM soloist.leader_epoch AS l WHERE l.shard = take_epoch.shard);
END $$;

CREATE FUNCTION soloist.wake(queue text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM soloist.listening AS l WHERE l.queue = wake.queue AND l.until > clock_timestamp()) THEN
        PERFORM pg_notify('soloist', wake.queue);
    END IF;
END $$;

CREATE FUNCTION soloist.write_lease(shard text, uid uuid, version bigint, lease jsonb) RETURNS TABLE(lease_uid uuid, lease_version bigint, at timestamp with time zone)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '1s'
    AS $_$
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
END $_$;

CREATE FUNCTION soloist.write_objects(shard text, writer text, writes jsonb) RETURNS TABLE(n integer, outcome text, kind text, namespace text, name text, uid uuid, version bigint, generation bigint, created_at timestamp with time zone, edited_at timestamp with time zone, metadata jsonb, spec jsonb, status jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_material TO 'off'
    SET jit TO 'off'
    AS $_$
#variable_conflict use_column
DECLARE
    now_at bigint := soloist.next_version(write_objects.shard);
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.*, o.place, o.there
        FROM jsonb_to_recordset(writes) AS a(
            n integer, op text, kind text, namespace text, name text, uid text, version bigint, metadata jsonb, spec jsonb,
            status jsonb, whole boolean
        )
        LEFT JOIN LATERAL (
            SELECT t.ctid AS place, t AS there FROM soloist.objects AS t
            WHERE t.shard = write_objects.shard AND t.kind = a.kind AND t.namespace = a.namespace AND t.name = a.name
            OFFSET 0
        ) AS o ON true
    ), made AS (
        INSERT INTO soloist.objects AS o (shard, kind, namespace, name, version, writer, metadata, spec)
        SELECT write_objects.shard, a.kind, a.namespace, a.name, now_at, write_objects.writer, a.metadata, a.spec
        FROM asked AS a WHERE a.op = 'create'
        ON CONFLICT ON CONSTRAINT objects_pkey DO NOTHING
        RETURNING o.*
    ), wanted AS MATERIALIZED (
        SELECT a.n, a.place, (a.there).status AS before,
            CASE WHEN a.whole THEN a.status ELSE soloist.merged((a.there).status, a.status) END AS status
        FROM asked AS a
        WHERE a.op = 'status' AND (a.there).uid::text = a.uid AND (a.there).version = a.version
    ), written AS (
        UPDATE soloist.objects AS o SET status = c.status, version = now_at, writer = write_objects.writer
        FROM wanted AS c
        WHERE o.ctid = c.place AND c.before IS DISTINCT FROM c.status
        RETURNING o.*
    ), deleted AS (
        DELETE FROM soloist.objects AS o USING asked AS a
        WHERE a.op = 'delete' AND o.ctid = a.place AND o.uid::text = a.uid
        RETURNING a.n
    ), now_there AS (
        SELECT * FROM made UNION ALL SELECT * FROM written
    )
    SELECT a.n,
        CASE
            WHEN a.op = 'create' THEN CASE WHEN w.uid IS NOT NULL THEN 'created' ELSE 'exists' END
            WHEN a.op = 'delete' THEN CASE WHEN a.n IN (SELECT d.n FROM deleted AS d) THEN 'deleted' ELSE 'gone' END
            WHEN w.uid IS NOT NULL THEN 'written'
            WHEN a.place IS NULL THEN 'gone'
            WHEN a.n IN (SELECT c.n FROM wanted AS c WHERE c.before IS NOT DISTINCT FROM c.status) THEN 'same'
            ELSE 'conflict'
        END,
        a.kind, a.namespace, a.name,
        coalesce(w.uid, (a.there).uid), coalesce(w.version, (a.there).version),
        coalesce(w.generation, (a.there).generation), coalesce(w.created_at, (a.there).created_at),
        coalesce(w.edited_at, (a.there).edited_at), coalesce(w.metadata, (a.there).metadata),
        coalesce(w.spec, (a.there).spec), coalesce(w.status, (a.there).status)
    FROM asked AS a
    LEFT JOIN now_there AS w ON w.kind = a.kind AND w.namespace = a.namespace AND w.name = a.name;
    IF jsonb_path_exists(writes, '$[*] ? (@.told == true)') THEN
        PERFORM pg_notify('soloist_changes', format('objects %s %s', write_objects.writer, write_objects.shard));
    END IF;
END $_$;

CREATE TABLE soloist.checkpoints (
    name text NOT NULL,
    value jsonb,
    fence bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE soloist.claims (
    held_until timestamp with time zone NOT NULL,
    fence bigint,
    due timestamp with time zone,
    attempts bigint,
    attempt integer DEFAULT 0 NOT NULL,
    retry_base integer DEFAULT 0 NOT NULL,
    reclaims integer DEFAULT 0 NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    status text,
    worker text
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_analyze_scale_factor='0.1', autovacuum_vacuum_cost_delay='0', vacuum_truncate='false');

COMMENT ON COLUMN soloist.claims.held_until IS 'Nobody else claims the row before this time; without a fence, only as long as the row is due when it was.';

COMMENT ON COLUMN soloist.claims.due IS 'When the row was due as it was claimed, and with status and attempts what an outcome compares the row with.';

COMMENT ON COLUMN soloist.claims.attempt IS 'Attempts that ended with an outcome, where the user''s table has no column for them.';

COMMENT ON COLUMN soloist.claims.retry_base IS 'Attempts made before a person asked for another round.';

COMMENT ON COLUMN soloist.claims.reclaims IS 'Claims in a row that ended without an outcome.';

CREATE TABLE soloist.dead_items (
    id bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    died_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    fence bigint,
    attempt integer NOT NULL,
    reclaims integer NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL,
    reason text NOT NULL,
    unique_key text,
    last_error text,
    payload jsonb NOT NULL,
    CONSTRAINT reason_is_known CHECK ((reason = ANY (ARRAY['Failed'::text, 'Interrupted'::text, 'ReclaimedTooOften'::text, 'Refused'::text])))
);

COMMENT ON COLUMN soloist.dead_items.attempt IS 'Number of the attempt that a retry would make.';

COMMENT ON COLUMN soloist.dead_items.reason IS 'Failed: given up after a failure. Interrupted: a claim ended without an outcome, and the queue holds such rows for a person. ReclaimedTooOften: too many claims in a row ended so. Refused: the work was done, and a constraint or a trigger refused to let that be written.';

CREATE TABLE soloist.dead_rows (
    id bigint NOT NULL,
    died_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    due_at timestamp with time zone,
    fence bigint NOT NULL,
    attempt integer NOT NULL,
    reclaims integer NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL,
    reason text NOT NULL,
    source text NOT NULL,
    pk text[] NOT NULL,
    last_error text,
    CONSTRAINT reason_is_known CHECK ((reason = ANY (ARRAY['Failed'::text, 'Interrupted'::text, 'ReclaimedTooOften'::text, 'Refused'::text])))
);

COMMENT ON COLUMN soloist.dead_rows.attempt IS 'Number of the attempt that a retry would make.';

COMMENT ON COLUMN soloist.dead_rows.reason IS 'As in soloist.dead_items.';

COMMENT ON COLUMN soloist.dead_rows.source IS 'Schema and table of the row.';

COMMENT ON COLUMN soloist.dead_rows.pk IS 'Its primary key, one text for each of its columns.';

ALTER TABLE soloist.dead_rows ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME soloist.dead_rows_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE soloist.fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE soloist.job_runs (
    job_uid text NOT NULL,
    run_key text NOT NULL,
    tick timestamp with time zone,
    epoch bigint NOT NULL,
    recorded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    outcome jsonb
);

CREATE TABLE soloist.job_ticks (
    job_uid text NOT NULL,
    last_tick timestamp with time zone NOT NULL
);

CREATE TABLE soloist.leader_epoch (
    shard text NOT NULL,
    epoch bigint NOT NULL,
    holder text DEFAULT ''::text NOT NULL,
    taken_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE soloist.leases (
    shard text NOT NULL,
    uid uuid DEFAULT gen_random_uuid() NOT NULL,
    version bigint NOT NULL,
    lease jsonb NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE soloist.listening (
    queue text NOT NULL,
    until timestamp with time zone NOT NULL
);

CREATE TABLE soloist.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE soloist.objects (
    shard text NOT NULL,
    kind text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    uid uuid DEFAULT gen_random_uuid() NOT NULL,
    version bigint NOT NULL,
    generation bigint DEFAULT 1 NOT NULL,
    writer text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    edited_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    given jsonb DEFAULT '{}'::jsonb NOT NULL,
    spec jsonb NOT NULL,
    status jsonb
)
WITH (fillfactor='60');

COMMENT ON COLUMN soloist.objects.edited_at IS 'When anything but the status was last written.';

COMMENT ON COLUMN soloist.objects.metadata IS 'Labels, annotations and owners; not what has a column of its own.';

COMMENT ON COLUMN soloist.objects.given IS 'Of labels and annotations those that come from a file; the others are a person''s.';

CREATE TABLE soloist.once (
    key text NOT NULL,
    fence bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE soloist.shards (
    shard text NOT NULL,
    version bigint NOT NULL,
    specs text,
    specs_of text,
    specs_at timestamp with time zone
)
WITH (fillfactor='50');

COMMENT ON COLUMN soloist.shards.specs IS 'The hash of the specs in effect, as the process has it that applied them (specs_of).';

CREATE TABLE soloist.sources (
    id integer NOT NULL,
    name text NOT NULL
);

COMMENT ON COLUMN soloist.sources.name IS 'Schema and table, quoted where SQL would: public."WebhookDelivery".';

ALTER TABLE soloist.sources ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME soloist.sources_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE soloist.work_items (
    id bigint NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    fence bigint,
    lease_until timestamp with time zone,
    attempt integer DEFAULT 1 NOT NULL,
    retry_base integer DEFAULT 0 NOT NULL,
    reclaims integer DEFAULT 0 NOT NULL,
    priority smallint DEFAULT 1 NOT NULL,
    queue text NOT NULL,
    claimed_by text,
    unique_key text,
    last_error text,
    payload jsonb NOT NULL,
    CONSTRAINT claim_is_whole CHECK (((fence IS NULL) = (lease_until IS NULL))),
    CONSTRAINT priority_is_0_to_3 CHECK (((priority >= 0) AND (priority <= 3))),
    CONSTRAINT queue_is_named CHECK ((queue <> ''::text))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_analyze_scale_factor='0.1', autovacuum_vacuum_cost_delay='0', vacuum_truncate='false');

COMMENT ON COLUMN soloist.work_items.fence IS 'The number of the present claim; null while there is none.';

COMMENT ON COLUMN soloist.work_items.attempt IS 'Number of the attempt that is next or under way: it rises with outcomes only, and never repeats, also after a retry by hand.';

COMMENT ON COLUMN soloist.work_items.retry_base IS 'Attempts made before a person asked for another round: attempt - retry_base counts against the limit.';

COMMENT ON COLUMN soloist.work_items.reclaims IS 'Claims in a row that ended without an outcome.';

COMMENT ON COLUMN soloist.work_items.priority IS '0 goes first, 3 last.';

ALTER TABLE soloist.work_items ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME soloist.work_items_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY soloist.checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (name);

ALTER TABLE ONLY soloist.claims
    ADD CONSTRAINT claims_pkey PRIMARY KEY (key);

ALTER TABLE ONLY soloist.dead_items
    ADD CONSTRAINT dead_items_pkey PRIMARY KEY (id);

ALTER TABLE ONLY soloist.dead_rows
    ADD CONSTRAINT dead_rows_pkey PRIMARY KEY (id);

ALTER TABLE ONLY soloist.job_runs
    ADD CONSTRAINT job_runs_pkey PRIMARY KEY (job_uid, run_key);

ALTER TABLE ONLY soloist.job_ticks
    ADD CONSTRAINT job_ticks_pkey PRIMARY KEY (job_uid);

ALTER TABLE ONLY soloist.leader_epoch
    ADD CONSTRAINT leader_epoch_pkey PRIMARY KEY (shard);

ALTER TABLE ONLY soloist.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (shard);

ALTER TABLE ONLY soloist.listening
    ADD CONSTRAINT listening_pkey PRIMARY KEY (queue);

ALTER TABLE ONLY soloist.mapped_queues
    ADD CONSTRAINT mapped_queues_pkey PRIMARY KEY (queue);

ALTER TABLE ONLY soloist.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY soloist.objects
    ADD CONSTRAINT objects_pkey PRIMARY KEY (shard, kind, namespace, name);

ALTER TABLE ONLY soloist.once
    ADD CONSTRAINT once_pkey PRIMARY KEY (key);

ALTER TABLE ONLY soloist.shards
    ADD CONSTRAINT shards_pkey PRIMARY KEY (shard);

ALTER TABLE ONLY soloist.sources
    ADD CONSTRAINT sources_name UNIQUE (name);

ALTER TABLE ONLY soloist.sources
    ADD CONSTRAINT sources_pkey PRIMARY KEY (id);

ALTER TABLE ONLY soloist.work_items
    ADD CONSTRAINT work_items_pkey PRIMARY KEY (id);

CREATE INDEX dead_items_queue ON soloist.dead_items USING btree (queue, died_at);

CREATE UNIQUE INDEX dead_rows_key ON soloist.dead_rows USING btree (key, COALESCE(due_at, '-infinity'::timestamp with time zone));

CREATE INDEX dead_rows_queue ON soloist.dead_rows USING btree (queue, died_at);

CREATE INDEX work_items_due ON soloist.work_items USING btree (queue, priority, due_at, id);

CREATE UNIQUE INDEX work_items_unique_key ON soloist.work_items USING btree (queue, unique_key) WHERE (unique_key IS NOT NULL);
