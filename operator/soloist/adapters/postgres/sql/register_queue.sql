INSERT INTO soloist.mapped_queues AS q (
    queue, source, hold, handler, max_reclaims, max_attempts, attempts_column, waits, jitter, claims, lock, renew, settle,
    retry, cancel
)
VALUES (
    %(queue)s, %(source)s, %(hold)s, %(handler)s, %(max_reclaims)s, %(max_attempts)s, %(attempts_column)s,
    %(waits)s, %(jitter)s, %(claims)s, %(lock)s, %(renew)s, %(settle)s, %(retry)s, %(cancel)s
)
ON CONFLICT ON CONSTRAINT mapped_queues_pkey DO UPDATE SET
    (registered_at, source, hold, handler, max_reclaims, max_attempts, attempts_column, waits, jitter, claims, lock, renew,
    settle, retry, cancel) = (excluded.registered_at, excluded.source, excluded.hold, excluded.handler, excluded.max_reclaims,
    excluded.max_attempts, excluded.attempts_column, excluded.waits, excluded.jitter, excluded.claims, excluded.lock,
    excluded.renew, excluded.settle, excluded.retry, excluded.cancel)
RETURNING q.queue
