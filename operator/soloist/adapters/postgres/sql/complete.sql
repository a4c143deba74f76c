SELECT * FROM soloist.complete(%(ids)s::bigint[], %(fences)s::bigint[])
