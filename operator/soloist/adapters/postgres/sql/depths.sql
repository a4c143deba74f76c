SELECT d.queue, d.ready, d.scheduled, d.in_flight, d.oldest_due, d.dead, d.whole FROM soloist.depths(%(queues)s, %(most)s) AS d
