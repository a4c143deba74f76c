SELECT
    w.n, w.outcome, w.kind, w.namespace, w.name, w.uid::text, w.version, w.generation, w.created_at, w.edited_at, w.metadata,
    w.spec, w.status
FROM soloist.write_objects(%(shard)s, %(writer)s, %(writes)s::jsonb) AS w
