SELECT
    current_user::text, r.rolsuper, r.rolbypassrls, pg_catalog.pg_is_in_recovery(),
    pg_catalog.current_setting('transaction_read_only') = 'on',
    pg_catalog.current_setting('session_replication_role'), pg_catalog.current_setting('TimeZone'),
    pg_catalog.current_setting('transaction_isolation'), pg_catalog.current_setting('synchronous_commit') <> 'off',
    pg_catalog.current_setting('server_encoding'),
    pg_catalog.current_setting('server_version_num')::int4,
    pg_catalog.to_regclass('soloist.claims') IS NOT NULL,
    ARRAY(
        SELECT pg_catalog.format('%%s ON soloist.%%s', w.privilege, c.relname)
        FROM pg_catalog.pg_class AS c
        CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS w(privilege)
        WHERE c.relnamespace = pg_catalog.to_regnamespace('soloist') AND CASE
            WHEN c.relname = ANY (%(tables)s) THEN NOT pg_catalog.has_table_privilege(c.oid, w.privilege)
            -- As nextval has it: either right will do.
            WHEN c.relname = 'fence' AND w.privilege = 'UPDATE' THEN NOT pg_catalog.has_sequence_privilege(c.oid, 'UPDATE, USAGE')
        END
        ORDER BY c.relname, w.privilege
    ),
    pg_catalog.pg_backend_pid()
FROM pg_catalog.pg_roles AS r
WHERE r.rolname = current_user
