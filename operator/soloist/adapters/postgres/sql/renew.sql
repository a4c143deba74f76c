SELECT * FROM soloist.renew(%(ids)s::bigint[], %(fences)s::bigint[], %(lease)s)
