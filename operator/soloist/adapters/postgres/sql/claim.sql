SELECT
    c.id, c.fence, c.attempt, c.tries, c.reclaims, c.priority, c.due_at AT TIME ZONE 'UTC', c.unique_key, c.payload::text
FROM soloist.claim(
    %(queue)s, %(most)s, %(lease)s, %(worker)s, %(max_reclaims)s, %(hold)s, %(after_due)s::timestamp AT TIME ZONE 'UTC', %(after_id)s,
    %(after_priority)s
) AS c
