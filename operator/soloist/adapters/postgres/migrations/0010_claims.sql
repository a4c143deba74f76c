-- Claims on rows of the users' own tables, and the dead letters of such rows.

-- A table of a user's that a queue works on. Its number is what the keys below begin with.
CREATE TABLE soloist.sources (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    CONSTRAINT sources_name UNIQUE (name)
);

COMMENT ON COLUMN soloist.sources.name IS 'Schema and table, quoted where SQL would: public."WebhookDelivery".';

-- The sidecar. A row of it is a claim while it has a fence. Without one it is what has to be remembered between two
-- claims: a rest, the number of attempts where the user's table does not hold it, claims that ended without an outcome.
-- key is the source's number, a colon, and the row's primary key as text, so that one index of one column finds it:
-- with two columns a planner may prefer to read a whole source. It is the primary key that makes a claim safe.
--
-- No index names anything else, and half of each page stays free, so a renewal touches no index. Rows come and go with
-- every claim, hence the vacuum settings of soloist.work_items.
CREATE TABLE soloist.claims (
    held_until timestamp with time zone NOT NULL,
    fence bigint,
    due timestamp with time zone,
    attempts bigint,
    attempt integer NOT NULL DEFAULT 0,
    retry_base integer NOT NULL DEFAULT 0,
    reclaims integer NOT NULL DEFAULT 0,
    key text COLLATE "C" NOT NULL,
    status text,
    worker text,
    CONSTRAINT claims_pkey PRIMARY KEY (key)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

COMMENT ON COLUMN soloist.claims.held_until IS 'Nobody else claims the row before this time; without a fence, only as long as the row is due when it was.';
COMMENT ON COLUMN soloist.claims.due IS 'When the row was due as it was claimed, and with status and attempts what an outcome compares the row with.';
COMMENT ON COLUMN soloist.claims.attempt IS 'Attempts that ended with an outcome, where the user''s table has no column for them.';
COMMENT ON COLUMN soloist.claims.retry_base IS 'Attempts made before a person asked for another round.';
COMMENT ON COLUMN soloist.claims.reclaims IS 'Claims in a row that ended without an outcome.';

-- What was given up or is held for a person, until it is retried, purged, or (but for rows that their application moves)
-- done after all. A row that comes due again may leave a letter for each time at which it was due.
CREATE TABLE soloist.dead_rows (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    died_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    due_at timestamp with time zone,
    fence bigint NOT NULL,
    attempt integer NOT NULL,
    reclaims integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    queue text NOT NULL,
    reason text NOT NULL,
    source text NOT NULL,
    pk text[] NOT NULL,
    last_error text,
    CONSTRAINT reason_is_known CHECK (reason IN ('Failed', 'Interrupted', 'ReclaimedTooOften', 'Refused'))
);

CREATE UNIQUE INDEX dead_rows_key ON soloist.dead_rows (
    key, (coalesce(due_at, '-infinity'::timestamp with time zone))
);

CREATE INDEX dead_rows_queue ON soloist.dead_rows (queue, died_at);

COMMENT ON COLUMN soloist.dead_rows.source IS 'Schema and table of the row.';
COMMENT ON COLUMN soloist.dead_rows.pk IS 'Its primary key, one text for each of its columns.';
COMMENT ON COLUMN soloist.dead_rows.attempt IS 'Number of the attempt that a retry would make.';
COMMENT ON COLUMN soloist.dead_rows.reason IS 'As in soloist.dead_items.';

-- Raises SO003 unless all that was to be written was, and so undoes the statement that asks. A trigger that gives back null
-- undoes a write and says nothing; and a claim may be taken over while a statement waits for its row.
CREATE FUNCTION soloist.all_written(wanted bigint, written bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF wanted <> written THEN
        RAISE EXCEPTION 'a trigger or rule of the table let % of % outcomes vanish', wanted - written, wanted
            USING ERRCODE = 'SO003', HINT = 'Let its function give back NEW.';
    END IF;
    RETURN true;
END $$;
