SELECT
    source, hold, handler, max_reclaims, max_attempts, attempts_column, waits, jitter, claims, lock, renew, settle, retry,
    cancel
FROM soloist.mapped_queues WHERE queue = %(queue)s
