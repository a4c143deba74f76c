-- Transactions of earlier terms can no longer commit, but their locks stay until somebody notices that: a frozen client, a
-- lost node, a long statement. Asked by whoever has taken the epoch, so every other term of this shard is an older one.
SELECT pg_catalog.pg_terminate_backend(a.pid)
FROM pg_catalog.pg_stat_activity AS a
WHERE a.application_name LIKE %(shard)s || ' %%'
    AND a.application_name <> %(term)s
    AND a.datname = pg_catalog.current_database()
    AND a.usename = current_user
