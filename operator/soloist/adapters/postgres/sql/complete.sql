SELECT * FROM soloist.complete(%(ids)s, %(fences)s)
