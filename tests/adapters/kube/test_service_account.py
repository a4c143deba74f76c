"""The way that a Pod has, on the real API server: the token that is mounted now, the authority, the address."""

import asyncio
import os
from pathlib import Path

import pytest

from soloist.adapters.kube import config, service_account
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.domain.errors import ConfigError, TransientError
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace

PLACE = {service_account.HOST: "10.0.0.1", service_account.PORT: "443"}


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_text("an authority\n")
    (tmp_path / "token").write_text("first\n")
    return tmp_path


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_proxy")
def test_the_token_is_the_one_that_is_mounted_now(mounted: Path) -> None:
    found = service_account.way(PLACE, mounted)
    assert (found.host, found.authority, found.proxy) == ("https://10.0.0.1:443", "an authority", None)
    assert found.credentials() == "Bearer first"
    (mounted / "token").write_text("second")
    assert found.credentials() == "Bearer second"
    assert (found.token_file, found.ca_file) == (str(mounted / "token"), str(mounted / "ca.crt"))


@pytest.mark.usefixtures("no_proxy")
def test_an_address_of_ipv6_has_its_brackets(mounted: Path) -> None:
    assert service_account.way({**PLACE, service_account.HOST: "fd00::1"}, mounted).host == "https://[fd00::1]:443"


@pytest.mark.usefixtures("no_proxy")
@pytest.mark.parametrize(("no", "proxy"), [("10.0.0.0/8,.svc", None), ("192.168.0.0/16", "http://proxy.example:3128")])
def test_a_proxy_is_used_unless_the_server_is_named_among_those_without(
    mounted: Path, monkeypatch: pytest.MonkeyPatch, no: str, proxy: str | None
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", no)
    assert service_account.way(PLACE, mounted).proxy == proxy


@pytest.mark.parametrize(
    ("environ", "without", "says"),
    [
        ({service_account.HOST: "10.0.0.1"}, "", "KUBERNETES_SERVICE_PORT are not both set"),
        (PLACE, "token", "token cannot be read (No such file or directory)"),
        (PLACE, "ca.crt", "ca.crt cannot be read (No such file or directory)"),
    ],
)
def test_what_is_missing_is_named(mounted: Path, environ: dict[str, str], without: str, says: str) -> None:
    if without:
        (mounted / without).unlink()
    with pytest.raises(ConfigError) as refused:
        Access(lambda: service_account.way(environ, mounted))
    assert says in str(refused.value)
    assert "run in a Pod whose service account token is mounted" in str(refused.value)


@pytest.mark.cluster
@pytest.mark.usefixtures("no_proxy")
def test_a_replaced_token_is_used_and_one_that_is_gone_for_a_moment_is_no_fault(
    control_plane: ControlPlane, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace.kubectl("create", "serviceaccount", "reader")
    namespace.kubectl("create", "role", "reader", "--verb=list", "--resource=configmaps")
    namespace.kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace.name}:reader")
    token = tmp_path / "token"
    token.write_text("not one")
    (tmp_path / "ca.crt").write_bytes(control_plane.ca.read_bytes())
    place = {service_account.HOST: "127.0.0.1", service_account.PORT: str(control_plane.port)}
    monkeypatch.setattr(config, "_HEADER_SECONDS", 0.0)
    access = Access(lambda: service_account.way(place, tmp_path))

    async def body() -> None:
        api, path = KubeApi(access), namespace.path("configmaps")
        try:
            with pytest.raises(Exception, match="401"):
                await api.request("GET", path)
            token.write_text(control_plane.service_account_token(namespace.name, "reader"))
            assert (await api.request("GET", path))["kind"] == "ConfigMapList"
            token.unlink()
            with pytest.raises(TransientError, match="token cannot be read") as gone:
                await api.request("GET", path)
            assert not gone.value.sent
        finally:
            await api.close()

    asyncio.run(body())
