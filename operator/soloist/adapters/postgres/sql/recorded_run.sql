-- What the ledger knows of a run: its own row, or that its tick lies among those whose rows were pruned.
SELECT r.outcome, r.epoch, r.recorded_at
FROM soloist.job_runs AS r
WHERE r.job_uid = %(job)s AND r.run_key = %(key)s
UNION ALL
SELECT NULL, NULL, NULL
FROM soloist.job_ticks AS t
WHERE t.job_uid = %(job)s AND t.last_tick >= %(tick)s::timestamp with time zone
LIMIT 1
