-- The managed table. It holds only what is still to be done: a finished row is deleted, one given up moves to dead_items.
--
-- No index names fence, lease, worker, attempt or error, and half of each page stays free: so a claim and a renewal are
-- heap-only updates that touch no index. due_at leads no index alone: a claim asks for one queue and one priority, and
-- rows that are not due yet lie behind those that are.

CREATE TABLE soloist.work_items (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due_at timestamp with time zone NOT NULL DEFAULT pg_catalog.now(),
    created_at timestamp with time zone NOT NULL DEFAULT pg_catalog.now(),
    fence bigint,
    lease_until timestamp with time zone,
    attempt integer NOT NULL DEFAULT 1,
    retry_base integer NOT NULL DEFAULT 0,
    reclaims integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL DEFAULT 1,
    queue text NOT NULL,
    claimed_by text,
    unique_key text,
    last_error text,
    payload jsonb NOT NULL,
    CONSTRAINT queue_is_named CHECK (queue <> ''),
    CONSTRAINT priority_is_0_to_3 CHECK (priority BETWEEN 0 AND 3),
    CONSTRAINT claim_is_whole CHECK ((fence IS NULL) = (lease_until IS NULL))
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0,
    -- Giving pages back needs a lock that holds up every claim, and the pages are wanted again soon.
    vacuum_truncate = false
);

CREATE INDEX work_items_due ON soloist.work_items (queue, priority, due_at, id);

CREATE UNIQUE INDEX work_items_unique_key ON soloist.work_items (queue, unique_key) WHERE unique_key IS NOT NULL;

COMMENT ON COLUMN soloist.work_items.attempt IS 'Number of the attempt that is next or under way: it rises with outcomes only, and never repeats, also after a retry by hand.';
COMMENT ON COLUMN soloist.work_items.retry_base IS 'Attempts made before a person asked for another round: attempt - retry_base counts against the limit.';
COMMENT ON COLUMN soloist.work_items.reclaims IS 'Claims in a row that ended without an outcome.';
COMMENT ON COLUMN soloist.work_items.priority IS '0 goes first, 3 last.';
COMMENT ON COLUMN soloist.work_items.fence IS 'The number of the present claim; null while there is none.';

CREATE TABLE soloist.dead_items (
    id bigint PRIMARY KEY,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    died_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    fence bigint,
    attempt integer NOT NULL,
    reclaims integer NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL,
    reason text NOT NULL,
    unique_key text,
    last_error text,
    payload jsonb NOT NULL,
    CONSTRAINT reason_is_known CHECK (reason IN ('Failed', 'Interrupted', 'ReclaimedTooOften', 'Refused'))
);

CREATE INDEX dead_items_queue ON soloist.dead_items (queue, died_at);

COMMENT ON COLUMN soloist.dead_items.attempt IS 'Number of the attempt that a retry would make.';
COMMENT ON COLUMN soloist.dead_items.reason IS 'Failed: given up after a failure. Interrupted: a claim ended without an outcome, and the queue holds such rows for a person. ReclaimedTooOften: too many claims in a row ended so. Refused: the work was done, and a constraint or a trigger refused to let that be written.';
