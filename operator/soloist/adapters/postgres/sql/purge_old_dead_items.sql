SELECT count(*) FROM soloist.purge_dead(%(queue)s, %(older_than)s::interval)
