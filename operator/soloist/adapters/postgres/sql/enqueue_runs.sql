SELECT e.n, e.said
FROM soloist.enqueue_runs(%(shard)s, %(epoch)s, %(term)s, %(wait)s, %(runs)s::jsonb) AS e
