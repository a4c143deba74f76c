SELECT count(*) FILTER (WHERE k.fence IS NULL AND k.held_until = 'infinity') FROM (
    SELECT c.fence, c.held_until
    FROM soloist.sources AS s JOIN soloist.claims AS c ON c.key > s.id || ':' AND c.key < s.id || ';'
    WHERE s.name = %(name)s
    LIMIT %(most)s
) AS k
