SELECT
    c.oid, c.relkind::text, pg_catalog.pg_get_userbyid(c.relowner),
    pg_catalog.pg_has_role(c.relowner, 'USAGE'), pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
    c.relrowsecurity, c.relforcerowsecurity, c.reltuples::float8,
    coalesce((
        SELECT o.option_value::int4 FROM pg_catalog.pg_options_to_table(c.reloptions) AS o WHERE o.option_name = 'fillfactor'
    ), 100),
    c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s
