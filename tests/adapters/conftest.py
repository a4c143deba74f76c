"""A certificate authority for the tests of HTTP."""

from __future__ import annotations

import pytest

from tests.adapters.receivers import Authority, make_authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("tls"))
