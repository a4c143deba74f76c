"""A real PostgreSQL for tests, durable as a production one (fsync and the rest at their defaults), up in two seconds.

Ask for fixtures (they come from tests/conftest.py):

    postgres          one server for the whole run
    database          an empty database of the test's own: database.dsn(), database.connect(), database.psql("select 1")
    fresh_postgres    for a test that stops, pauses or configures a server: fresh_postgres(settings={"work_mem": "1MB"})
    newer_postgres    a server of a newer major version, from a wheel
    pgbouncer         PgBouncer in transaction mode before `postgres`: pgbouncer.dsn(database.name)

A server: restart("immediate"), stop(), start(), kill(), pause(), resume(), dsn(database, user), role("app", "LOGIN"),
create_database(name, template=…), drop_database(name), run("pg_dump", "-s", dsn). `queue_database` is a database that holds
the product's schema, `own_queue_database` one that a test may change.

`python -m tests.postgres up | down | dsn` keeps one outside of tests, `run` (`make postgres`) one in the terminal. Variables: SOLOIST_PG_BIN (a folder with postgres
and initdb, or the word wheel), SOLOIST_CACHE (default ~/.cache/soloist), SOLOIST_WITHOUT_POSTGRES=1 (skip, not fail).
"""
