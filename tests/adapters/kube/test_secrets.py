"""Keys of Secrets and ConfigMaps: read when needed, named in sentences, shown to nobody."""

import asyncio
import base64
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.secrets import KubeSecrets
from soloist.adapters.sealed import Sealed
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError
from tests.adapters.kube.conftest import AccessTo
from tests.cluster.fixtures import Namespace

TOKEN = KeyRef(kind="Secret", name="backend", key="token")


@pytest.fixture
def reading(
    access: AccessTo, namespace: Namespace
) -> Callable[[Callable[[KubeSecrets, list[float]], Awaitable[Any]]], Any]:
    """Runs a coroutine with a reader and the clock that it reads."""
    encoded = {"token": "s3cret\n", "other": "ü"}
    binary = {"binary": base64.b64encode(b"\xff\xfe").decode()}
    content = {key: base64.b64encode(value.encode()).decode() for key, value in encoded.items()} | binary
    namespace.api.create(namespace.path("secrets"), {"metadata": {"name": "backend"}, "data": content})
    namespace.api.create(namespace.path("configmaps"), {"metadata": {"name": "ca"}, "data": {"ca.crt": "PEM"}})

    def run(body: Callable[[KubeSecrets, list[float]], Awaitable[Any]]) -> Any:
        async def inside() -> Any:
            api, clock = KubeApi(access()), [100.0]
            try:
                return await body(KubeSecrets(api, boottime=lambda: clock[0], keep=2.0), clock)
            finally:
                await api.close()

        return asyncio.run(inside())

    return run


@pytest.mark.cluster
def test_values_are_read_as_text(reading: Any, namespace: Namespace) -> None:
    async def body(secrets: KubeSecrets, clock: list[float]) -> None:
        assert (await secrets.read(namespace.name, TOKEN)).reveal() == "s3cret\n"
        authority = KeyRef(kind="ConfigMap", name="ca", key="ca.crt")
        assert (await secrets.read(namespace.name, authority)).reveal() == "PEM"

    reading(body)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("ref", "sentence"),
    [
        (KeyRef(kind="Secret", name="nobody", key="token"), "Secret {}/nobody does not exist: create it"),
        (KeyRef(kind="Secret", name="backend", key="nokey"), "Secret {}/backend has no key 'nokey': add it"),
        (KeyRef(kind="Secret", name="backend", key="binary"), "the value of key 'binary' is not UTF-8 text"),
        (KeyRef(kind="Node", name="n", key="k"), "Node {}/n cannot be read"),
    ],
)
def test_what_is_missing_is_said_without_what_is_there(
    ref: KeyRef, sentence: str, reading: Any, namespace: Namespace
) -> None:
    async def body(secrets: KubeSecrets, clock: list[float]) -> str:
        with pytest.raises(PermanentError) as missing:
            await secrets.read(namespace.name, ref)
        return str(missing.value)

    said = reading(body)
    assert sentence.format(namespace.name) in said
    assert "s3cret" not in said


@pytest.mark.cluster
def test_a_new_value_is_seen_after_two_seconds(reading: Any, namespace: Namespace) -> None:
    async def body(secrets: KubeSecrets, clock: list[float]) -> None:
        await secrets.read(namespace.name, TOKEN)
        namespace.api.patch(namespace.path("secrets", "backend"), {"stringData": {"token": "new"}})
        clock[0] += 1.9
        assert (await secrets.read(namespace.name, TOKEN)).reveal() == "s3cret\n"
        clock[0] += 0.2
        assert (await secrets.read(namespace.name, TOKEN)).reveal() == "new"

    reading(body)


def test_a_sealed_value_shows_itself_only_when_asked() -> None:
    sealed = Sealed("s3cret")
    assert f"{sealed} {sealed!r} {[sealed]}" == "*** *** [***]"
    with pytest.raises(TypeError):
        pickle.dumps(sealed)
