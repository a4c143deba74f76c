DELETE FROM soloist.dead_rows AS d WHERE d.queue = %(queue)s AND d.id = ANY (%(ids)s) RETURNING d.id
