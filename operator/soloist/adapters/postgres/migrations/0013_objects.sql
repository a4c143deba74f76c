-- What an API server keeps for a controller, kept in rows for `soloist standalone`: objects with uid, generation, version.
--
-- Whoever writes takes the shard's row first, and holds it until the commit. So versions rise in the order of the commits,
-- and whoever has read up to one has missed none before it. A version is a time in microseconds, or more: a database that
-- lost its last writes (a restore, a standby that was behind) gives none of their versions again.

CREATE TABLE soloist.shards (
    shard text PRIMARY KEY,
    version bigint NOT NULL,
    specs text,
    specs_of text,
    specs_at timestamp with time zone
) WITH (fillfactor = 50);

COMMENT ON COLUMN soloist.shards.specs IS 'The hash of the specs in effect, as the process has it that applied them (specs_of).';

CREATE TABLE soloist.objects (
    shard text NOT NULL,
    kind text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    uid uuid NOT NULL DEFAULT pg_catalog.gen_random_uuid(),
    version bigint NOT NULL,
    generation bigint NOT NULL DEFAULT 1,
    writer text NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    edited_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    metadata jsonb NOT NULL DEFAULT '{}',
    given jsonb NOT NULL DEFAULT '{}',
    spec jsonb NOT NULL,
    status jsonb,
    PRIMARY KEY (shard, kind, namespace, name)
) WITH (fillfactor = 60);

COMMENT ON COLUMN soloist.objects.metadata IS 'Labels, annotations and owners; not what has a column of its own.';
COMMENT ON COLUMN soloist.objects.given IS 'Of labels and annotations those that come from a file; the others are a person''s.';
COMMENT ON COLUMN soloist.objects.edited_at IS 'When anything but the status was last written.';

CREATE FUNCTION soloist.next_version(shard text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
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

-- A JSON merge patch (RFC 7386): objects are merged, null removes, everything else replaces.
CREATE FUNCTION soloist.merged(old jsonb, patch jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
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

-- Many writes as one transaction, each as if it came alone; no two of them are of one name. Each has `n`, `op` (create,
-- status, delete), `kind`, `namespace`, `name`; a create `metadata` and `spec`; the others `uid`; a status `version` and
-- `status`, whole or a merge patch. Of each: `created` or `exists`; `written`, `same`, `conflict` or `gone`; `deleted` or
-- `gone`; and the object as it now stands, where there is one.
--
-- Each is looked up once, by its key, and then written where it lies: the shard's row keeps everybody else away meanwhile.
-- However the planner guesses, and it guesses by what there was when a session asked first, a batch costs no look at all
-- objects for each of its writes: the look-up is a subquery that it has to do as it stands, and nothing is kept to be joined.
CREATE FUNCTION soloist.write_objects(shard text, writer text, writes jsonb)
RETURNS TABLE (
    n integer, outcome text, kind text, namespace text, name text, uid uuid, version bigint, generation bigint,
    created_at timestamp with time zone, edited_at timestamp with time zone, metadata jsonb, spec jsonb, status jsonb
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_material = off
SET jit = off
AS $$
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
END $$;

-- Merges `annotations` into those of one object: null removes. Says whether there is such an object.
CREATE FUNCTION soloist.annotate_object(
    shard text, writer text, kind text, namespace text, name text, annotations jsonb
) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
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

-- Makes `objects` (kind, namespace, name, spec, and labels and annotations as `given`) all that there are of `kinds`, in one
-- transaction that checks the epoch last (SO002): whoever leads no longer applies nothing. Only another spec moves the
-- generation; what a person has annotated stays; what goes takes along what it owns. `hash` is kept for the others to
-- compare; null leaves the one that is there. Says how many were made, changed, and removed. Thousands against thousands are joined by hashing, whatever the
-- planner guesses of a table that was filled a moment ago: everybody else's writes wait meanwhile.
CREATE FUNCTION soloist.apply_objects(shard text, writer text, epoch bigint, kinds text[], objects jsonb, hash text)
RETURNS TABLE (made bigint, changed bigint, removed bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off
SET enable_mergejoin = off
SET jit = off
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

-- The same object with null for every value of its own: as a merge patch it takes away what it names.
CREATE FUNCTION soloist.emptied(given jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (
        SELECT coalesce(jsonb_object_agg(e.key, CASE WHEN jsonb_typeof(e.value) = 'object'
            THEN soloist.emptied(e.value) ELSE 'null' END), '{}')
        FROM jsonb_each(given) AS e
    );
END $$;

-- What a role needs that runs `soloist standalone`; not DDL.
CREATE FUNCTION soloist.allow_standalone(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM soloist.allow_work(role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON soloist.leases, soloist.shards, soloist.objects TO %I', role);
END $$;
