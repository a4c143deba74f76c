SELECT * FROM soloist.settle(%(ids)s, %(fences)s, %(outcomes)s, %(errors)s, %(retry_in)s)
