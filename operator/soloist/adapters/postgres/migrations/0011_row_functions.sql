-- Rows of the users' own tables for workers in any language, where a queue's claims are in the sidecar.
--
-- What a mapping means in SQL is composed by the program and put here, with `soloist queue register`. These texts are run
-- with the rights of whoever calls the functions below, so writing them is for the owner of the schema alone: a role that
-- could would borrow the rights of every role that works a queue.
-- The last parameter of each text that counts time is what time it is: the clock of a statement stands still in a procedure
-- that works row after row.
CREATE TABLE soloist.mapped_queues (
    queue text PRIMARY KEY,
    registered_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
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
COMMENT ON COLUMN soloist.mapped_queues.cancel IS 'Null where the application moves the rows.';
COMMENT ON COLUMN soloist.mapped_queues.waits IS 'Between attempts, for rows that their application was to move and did not.';

CREATE FUNCTION soloist.mapped_queue(queue text) RETURNS soloist.mapped_queues
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
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

-- What became of claims, in the words of soloist.settle; a Failed row is given up where it has no retry_in. Of each the
-- verdict: Accepted; Lost, where another claim or an outcome came first; Changed, where the application changed or deleted
-- the row meanwhile, which is left as it is; StillDue, where the application was to move the row and did not.
-- What the table itself refuses is raised, and nothing is written.
CREATE FUNCTION soloist.settle_rows(
    queue text, pks text[], fences bigint[], outcomes text[], errors text[] DEFAULT NULL, retry_in interval[] DEFAULT NULL
) RETURNS TABLE (pk text, verdict text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
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

-- Claims up to `n` due rows for `lease`. `pk` is the primary key as text, of a composite one an array of texts; show it and
-- `fence` with everything that is said of the row. `attempt` and `tries` are as in soloist.claim; `columns` are those that
-- the WorkQueue names. Commit before the work starts.
-- Rows that were claimed in vain too often, or had used up their attempts before, are given up here and not given.
CREATE FUNCTION soloist.claim_rows(
    queue text, n integer DEFAULT 1, lease interval DEFAULT '00:01:00', worker text DEFAULT NULL
) RETURNS TABLE (
    pk text, fence bigint, attempt integer, tries integer, reclaims integer, due_at timestamp with time zone, payload text,
    columns jsonb
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_nestloop = off
SET enable_mergejoin = off
SET jit = off
AS $$
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
END $$;

-- A whole lease from now for each; gives the fences that still hold. Others see it once it is committed. Until then claims
-- pass over a row of it that was free to be locked, and wait at the others once their lease is over. None is where a change
-- of the whole table is under way: a renewal must not wait for that, or the leases of all who work would end meanwhile.
CREATE FUNCTION soloist.renew_rows(queue text, pks text[], fences bigint[], lease interval) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
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

-- Dead rows back to work, by the ids of their letters in soloist.dead_rows: due now, with a fresh budget of tries. Gives
-- each letter that was there and whether its row is back; it is not where the application moved it on.
CREATE FUNCTION soloist.retry_dead_rows(queue text, ids bigint[]) RETURNS TABLE (id bigint, back boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    q soloist.mapped_queues := soloist.mapped_queue(queue);
BEGIN
    RETURN QUERY EXECUTE q.retry USING ids, clock_timestamp();
END $$;

-- Takes rows out of work, by their primary keys, also one that is being worked: its worker finds its claim lost. They get the
-- status of rows that were given up, and have no letter. Gives the keys of those that were waiting or being worked.
CREATE FUNCTION soloist.cancel_rows(queue text, pks text[]) RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
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

-- One claim, inside the application's own transaction. Where it is lost (SO001), or the row is not as it was when its work
-- began (SO004), they raise, and nothing of the transaction stays; a release minds no change. They give the verdict.

CREATE FUNCTION soloist.settle_row_or_raise(
    queue text, pk text, fence bigint, outcome text, error text DEFAULT NULL, retry_in interval DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
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

CREATE FUNCTION soloist.complete_row(queue text, pk text, fence bigint) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$ SELECT soloist.settle_row_or_raise(queue, pk, fence, 'Done') $$;

CREATE FUNCTION soloist.fail_row(queue text, pk text, fence bigint, error text, retry_in interval) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$ SELECT soloist.settle_row_or_raise(queue, pk, fence, 'Failed', error, retry_in) $$;

CREATE FUNCTION soloist.release_row(queue text, pk text, fence bigint, retry_in interval DEFAULT NULL) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$ SELECT soloist.settle_row_or_raise(queue, pk, fence, 'PutBack', NULL, retry_in) $$;

CREATE FUNCTION soloist.renew_row(queue text, pk text, fence bigint, lease interval) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM soloist.renew_rows(queue, ARRAY[renew_row.pk], ARRAY[fence], lease);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim of row % of queue "%" under fence % is lost', renew_row.pk, queue, fence
            USING ERRCODE = 'SO001', HINT = 'Roll back. The row was handed to another worker, or is finished.';
    END IF;
END $$;
