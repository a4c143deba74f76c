SELECT a.made, a.changed, a.removed
FROM soloist.apply_objects(%(shard)s, %(writer)s, %(epoch)s, %(kinds)s, %(objects)s::jsonb, %(hash)s) AS a
