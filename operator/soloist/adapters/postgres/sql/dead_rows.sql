SELECT d.id, d.pk, d.reason, d.last_error, d.attempt, d.reclaims, nullif(nullif(d.due_at, 'infinity'), '-infinity'), d.died_at
FROM soloist.dead_rows AS d
WHERE d.queue = %(queue)s AND (d.died_at, d.id) > (%(died_at)s, %(id)s)
ORDER BY d.died_at, d.id
LIMIT %(most)s
