SELECT d.last_error, d.payload::text FROM soloist.dead_items AS d WHERE d.queue = %(queue)s AND d.id = %(id)s
