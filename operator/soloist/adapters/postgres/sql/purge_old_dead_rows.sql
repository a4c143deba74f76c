WITH gone AS (
    DELETE FROM soloist.dead_rows AS d
    WHERE d.queue = %(queue)s AND d.died_at < pg_catalog.clock_timestamp() - %(older_than)s::interval
    RETURNING d.id
)
SELECT count(*) FROM gone
