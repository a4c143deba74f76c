-- The number of a table, given once. Most often it is there already, and an insert would use up a number each time.
WITH made AS (
    INSERT INTO soloist.sources (name)
    SELECT %(name)s WHERE NOT EXISTS (SELECT FROM soloist.sources WHERE name = %(name)s)
    ON CONFLICT ON CONSTRAINT sources_name DO UPDATE SET name = excluded.name
    RETURNING id
)
SELECT id FROM made UNION ALL SELECT id FROM soloist.sources WHERE name = %(name)s LIMIT 1
