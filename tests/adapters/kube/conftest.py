"""Ways to the real API server, straight or through a proxy with faults."""

import gc
import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.kube.config import Access
from tests.adapters.kube.job_place import order
from tests.cluster.control_plane import ControlPlane

__all__ = ["AccessTo", "access", "collected", "order"]

AccessTo = Callable[..., Access]


@pytest.fixture
def access(control_plane: ControlPlane, tmp_path: Path) -> AccessTo:
    """`access()`, `access(server=proxy.server)`, `access(user="nobody")`, `access(token_file=…)`."""
    numbers = itertools.count()

    def make(user: str = "admin", **more: Any) -> Access:
        return Access.found(str(control_plane.kubeconfig(tmp_path / f"kubeconfig-{next(numbers)}", user, **more)))

    return make


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """asyncio leaves the sockets of TLS connections that were reset to the garbage collector.

    Its warnings come here then, not out of another test, and not into the middle of an import: pytest makes text of them
    by a parser that is not re-entrant (CPython's "AST constructor recursion depth mismatch").
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
