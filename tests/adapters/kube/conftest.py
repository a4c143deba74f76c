"""Ways to the real API server, straight or through a proxy with faults."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.kube.config import Access
from tests.cluster.control_plane import ControlPlane

AccessTo = Callable[..., Access]


@pytest.fixture
def access(control_plane: ControlPlane, tmp_path: Path) -> AccessTo:
    """`access()`, `access(server=proxy.server)`, `access(user="nobody")`, `access(token_file=…)`."""
    numbers = itertools.count()

    def make(user: str = "admin", **more: Any) -> Access:
        return Access.found(str(control_plane.kubeconfig(tmp_path / f"kubeconfig-{next(numbers)}", user, **more)))

    return make
