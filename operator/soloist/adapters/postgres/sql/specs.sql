SELECT s.specs, s.specs_of, s.specs_at FROM soloist.shards AS s WHERE s.shard = %(shard)s
