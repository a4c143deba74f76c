SELECT * FROM soloist.renew(%(ids)s, %(fences)s, %(lease)s)
