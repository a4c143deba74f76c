SELECT count(*) FROM soloist.dead_items AS d
WHERE d.queue = %(queue)s AND d.died_at < pg_catalog.clock_timestamp() - %(older_than)s::interval
