"""Fixtures that all tests may use: a real control plane, a counting backend, proxies with faults."""

pytest_plugins = ["tests.cluster.fixtures", "tests.skips"]
