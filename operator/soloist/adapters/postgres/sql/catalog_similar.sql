-- Tables that may have been meant: the same name but for capitals and signs, in any schema.
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p')
    AND pg_catalog.replace(pg_catalog.lower(c.relname), '_', '') = pg_catalog.replace(pg_catalog.lower(%(table)s), '_', '')
ORDER BY n.nspname = %(schema)s DESC, 1
LIMIT 3
