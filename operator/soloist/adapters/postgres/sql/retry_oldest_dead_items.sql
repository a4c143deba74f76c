SELECT soloist.retry_dead(%(queue)s, %(most)s::integer)
