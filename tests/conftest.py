"""Fixtures that all tests may use: a real control plane, a real PostgreSQL, a counting backend, proxies with faults."""

pytest_plugins = ["tests.cluster.fixtures", "tests.postgres.fixtures", "tests.postgres.migrated", "tests.skips"]
