-- One row always, so that no answer is never taken for no lease. A standby may be behind, and is no place to ask.
SELECT
    pg_catalog.clock_timestamp(), pg_catalog.pg_is_in_recovery(), l.uid::text, l.version, l.lease
FROM (VALUES (%(shard)s::text)) AS wanted (shard)
LEFT JOIN soloist.leases AS l ON l.shard = wanted.shard
