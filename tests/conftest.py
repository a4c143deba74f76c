"""Fixtures that all tests may use: a real control plane, a real PostgreSQL, a counting backend, proxies with faults."""

from hypothesis import HealthCheck, settings

# Neither a slow example nor examples that are slow to make say anything of what is tried.
settings.register_profile("busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

pytest_plugins = ["tests.cluster.fixtures", "tests.postgres.fixtures", "tests.postgres.migrated", "tests.skips"]
