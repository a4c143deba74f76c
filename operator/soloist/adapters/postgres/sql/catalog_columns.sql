-- A domain is followed to the type that it is made of; its own NOT NULL counts as the column's.
WITH RECURSIVE chain AS (
    SELECT a.attnum, t.oid, t.typtype, t.typbasetype, a.atttypmod AS modifier, t.typtypmod, t.typnotnull AS strict, t.typname
    FROM pg_catalog.pg_attribute AS a
    JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
    WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT c.attnum, t.oid, t.typtype, t.typbasetype, CASE WHEN c.modifier < 0 THEN c.typtypmod ELSE c.modifier END, t.typtypmod,
        c.strict OR t.typnotnull, t.typname
    FROM chain AS c
    JOIN pg_catalog.pg_type AS t ON t.oid = c.typbasetype
    WHERE c.typtype = 'd'
)
SELECT
    a.attname, n.nspname, t.typname, b.typname, pg_catalog.format_type(a.atttypid, a.atttypmod),
    CASE WHEN b.typname IN ('varchar', 'bpchar') AND b.modifier >= 4 THEN b.modifier - 4 END,
    CASE WHEN b.typname IN ('timestamp', 'timestamptz') AND b.modifier >= 0 THEN b.modifier END,
    ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum AS e WHERE e.enumtypid = b.oid ORDER BY e.enumsortorder),
    a.attnotnull OR b.strict, a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL, a.attgenerated <> '',
    pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT'),
    pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'UPDATE')
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
JOIN chain AS b ON b.attnum = a.attnum AND b.typtype <> 'd'
WHERE a.attrelid = %(oid)s
ORDER BY a.attnum
