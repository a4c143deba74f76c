SELECT
    i.relname,
    ARRAY(
        SELECT coalesce(a.attname::text, '')
        FROM pg_catalog.unnest(x.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
        LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = k.attnum AND k.attnum > 0
        WHERE k.n <= x.indnkeyatts
        ORDER BY k.n
    ),
    x.indisunique, x.indisvalid AND x.indisready, pg_catalog.pg_get_expr(x.indpred, x.indrelid), m.amname
FROM pg_catalog.pg_index AS x
JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
JOIN pg_catalog.pg_am AS m ON m.oid = i.relam
WHERE x.indrelid = %(oid)s
ORDER BY i.relname
