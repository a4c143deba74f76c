INSERT INTO soloist.listening AS l (queue, until)
SELECT q.queue, pg_catalog.clock_timestamp() + interval '90 seconds'
FROM pg_catalog.unnest(%(queues)s::text[]) AS q(queue)
ORDER BY q.queue
ON CONFLICT (queue) DO UPDATE SET until = excluded.until
-- Of many workers one writes.
WHERE l.until < excluded.until - interval '20 seconds'
