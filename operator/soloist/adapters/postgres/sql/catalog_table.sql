SELECT
    c.oid, c.relkind::text, pg_catalog.pg_get_userbyid(c.relowner),
    pg_catalog.pg_has_role(c.relowner, 'USAGE'), pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
    c.relrowsecurity, c.relforcerowsecurity, c.reltuples::float8
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s
