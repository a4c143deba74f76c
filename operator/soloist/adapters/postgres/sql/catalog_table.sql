-- Row-level security counts only where no policy lets our role see every row.
SELECT
    c.oid, c.relkind::text, pg_catalog.pg_get_userbyid(c.relowner),
    pg_catalog.pg_has_role(c.relowner, 'USAGE'), pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
    c.relrowsecurity AND (
        EXISTS (SELECT FROM pg_catalog.pg_policy AS p WHERE p.polrelid = c.oid AND NOT p.polpermissive)
        OR NOT EXISTS (
            SELECT FROM pg_catalog.pg_policy AS p
            WHERE p.polrelid = c.oid AND p.polcmd = '*' AND pg_catalog.pg_get_expr(p.polqual, p.polrelid) = 'true'
                AND EXISTS (
                    SELECT FROM pg_catalog.unnest(p.polroles) AS r(oid)
                    WHERE r.oid = 0 OR pg_catalog.pg_has_role(r.oid, 'USAGE')
                )
        )
    ),
    c.relforcerowsecurity, c.reltuples::float8
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s
