SELECT w.at, w.lease_uid::text, w.lease_version
FROM soloist.write_lease(%(shard)s, %(uid)s::text::uuid, %(version)s::bigint, %(lease)s::jsonb) AS w
