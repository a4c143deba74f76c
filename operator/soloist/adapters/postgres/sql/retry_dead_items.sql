SELECT soloist.retry_dead(ARRAY(
    SELECT d.id FROM soloist.dead_items AS d WHERE d.queue = %(queue)s AND d.id = ANY (%(ids)s)
))
