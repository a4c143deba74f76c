-- What there is, of one state, with the version of that state; one row at least. With `since`: what others have written after.
SELECT
    s.version, o.kind, o.namespace, o.name, o.uid::text, o.version, o.generation, o.created_at, o.edited_at, o.metadata, o.spec,
    o.status
FROM (
    SELECT coalesce(pg_catalog.max(h.version), 0) AS version FROM soloist.shards AS h WHERE h.shard = %(shard)s
) AS s
LEFT JOIN soloist.objects AS o ON o.shard = %(shard)s
    AND o.kind = ANY (%(kinds)s::text[])
    AND (%(namespaces)s::text[] IS NULL OR o.namespace = ANY (%(namespaces)s::text[]))
    AND (%(name)s::text IS NULL OR o.name = %(name)s::text)
    AND (%(since)s::bigint IS NULL OR (o.version > %(since)s::bigint AND o.writer <> %(writer)s))
ORDER BY o.kind, o.namespace, o.name
