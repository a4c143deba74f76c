SELECT soloist.annotate_object(%(shard)s, %(writer)s, %(kind)s, %(namespace)s, %(name)s, %(annotations)s::jsonb)
