SELECT
    c.id, c.fence, c.attempt, c.tries, c.reclaims, c.priority,
    -- In microseconds, and not before the first time that every client can say.
    (extract(epoch FROM greatest(c.due_at, '0001-01-03 00:00:00+00')) * 1000000)::bigint,
    c.unique_key, c.payload::text
FROM soloist.claim(
    %(queue)s, %(most)s, %(lease)s, %(worker)s, %(max_reclaims)s, %(hold)s, %(after_due)s, %(after_id)s,
    %(after_priority)s, %(spare)s, %(doomed)s
) AS c
