SELECT
    t.tgname, p.proname, (t.tgtype & 16) <> 0,
    ARRAY(
        SELECT a.attname::text FROM pg_catalog.unnest(t.tgattr::int2[]) AS k(attnum)
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.tgrelid AND a.attnum = k.attnum
    ),
    (t.tgtype & 2) <> 0, (t.tgtype & 1) <> 0
FROM pg_catalog.pg_trigger AS t
JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
WHERE t.tgrelid = %(oid)s AND NOT t.tgisinternal AND t.tgenabled <> 'D'
ORDER BY t.tgname
