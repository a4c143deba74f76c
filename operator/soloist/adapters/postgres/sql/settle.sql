SELECT * FROM soloist.settle(%(ids)s::bigint[], %(fences)s::bigint[], %(outcomes)s, %(errors)s, %(retry_in)s)
