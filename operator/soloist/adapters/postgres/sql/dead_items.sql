SELECT
    d.id, ARRAY[d.id::text], d.reason, d.last_error, d.attempt, d.reclaims,
    CASE WHEN d.due_at BETWEEN '0001-01-03' AND '9999-12-29' THEN d.due_at END,
    d.died_at
FROM soloist.dead_items AS d
WHERE d.queue = %(queue)s AND (d.died_at, d.id) > (%(died_at)s, %(id)s)
ORDER BY d.died_at, d.id
LIMIT %(most)s
