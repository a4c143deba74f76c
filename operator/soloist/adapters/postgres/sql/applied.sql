SELECT version, checksum, (extract(epoch FROM applied_at) * 1000000)::bigint
FROM soloist.migrations
ORDER BY version
