-- One message of three statements, so that whoever sends it is not needed again before the record of the run is there.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT
    pg_catalog.set_config('application_name', %(term)s, true),
    pg_catalog.set_config('statement_timeout', %(statement)s, true),
    pg_catalog.set_config('lock_timeout', %(lock)s, true),
    pg_catalog.set_config('idle_in_transaction_session_timeout', %(idle)s, true),
    CASE WHEN %(schema)s::text IS NOT NULL
        THEN pg_catalog.set_config('search_path', pg_catalog.quote_ident(%(schema)s::text), true) END,
    -- A client that is gone is noticed in the middle of a statement. The setting came with 14, and not for Windows.
    CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 140000
        AND pg_catalog.version() !~* 'visual c|msvc|mingw|windows'
        THEN pg_catalog.set_config('client_connection_check_interval', %(check)s, true) END,
    -- A commit that is not on disk is no record.
    CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
        THEN pg_catalog.set_config('synchronous_commit', 'on', true) END;
SELECT soloist.record_run(%(job)s, %(key)s, %(tick)s::timestamp with time zone, %(epoch)s)
