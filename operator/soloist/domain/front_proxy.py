"""Who asks, where the API server passes a request on: it has looked at the caller, and says who that is in headers.

Those headers are believed of nobody but the API server itself, who shows a certificate of an authority that the cluster
keeps for that alone. That the certificate is of that authority the TLS handshake has found; its name is looked at here. Whoever
shows none is a stranger, whatever else he brings: there is no second way in.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from soloist.domain.external_metrics import GROUP, VERSION

PLACE = "ConfigMap kube-system/extension-apiserver-authentication"
ANONYMOUS = "system:anonymous"
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """What the cluster says of its API server's other face. No name in ``names``: any that the authority signed."""

    authority: str
    names: tuple[str, ...]
    user_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whoever is behind a request, in the API server's words."""

    user: str
    groups: tuple[str, ...]
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class NoFrontProxy(ValueError):
    """The cluster has none, or it cannot be read; the message says what to do."""


class Stranger(Exception):
    """Not the API server; the message says why."""


def front_proxy(data: Mapping[str, str]) -> FrontProxy:
    """Of that ConfigMap's data. Raises NoFrontProxy."""
    authority = data.get("requestheader-client-ca-file", "")
    user_headers = _words(data, "requestheader-username-headers")
    if not authority.strip() or not user_headers:
        raise NoFrontProxy(
            f"{PLACE} names no authority or no header of the front proxy: start the API server with "
            "--requestheader-client-ca-file, --requestheader-username-headers and their like (the aggregation layer)."
        )
    return FrontProxy(
        authority=authority,
        names=_words(data, "requestheader-allowed-names"),
        user_headers=user_headers,
        group_headers=_words(data, "requestheader-group-headers"),
        extra_prefixes=_words(data, "requestheader-extra-headers-prefix"),
    )


def caller(front: FrontProxy, certificate_names: Sequence[str] | None, headers: Iterable[tuple[str, str]]) -> Caller:
    """``certificate_names``: the common names of a certificate that the authority signed; None: none was shown. Stranger."""
    if certificate_names is None:
        raise Stranger("Ask through the API server: the front proxy's certificate was not shown.")
    if front.names and not set(front.names) & set(certificate_names):
        raise Stranger(
            f"The certificate is not one of the front proxy's: its name is none of {', '.join(front.names)}."
        )
    given = [(name.lower(), value) for name, value in headers]
    users = _given(given, front.user_headers)
    if not users or not users[0]:
        raise Stranger("The front proxy does not say who asks.")
    extra: dict[str, list[str]] = {}
    for name, value in given:
        for prefix in front.extra_prefixes:
            if name.startswith(prefix.lower()):
                extra.setdefault(unquote(name[len(prefix) :]), []).append(value)
    return Caller(user=users[0], groups=_groups(users[0], _given(given, front.group_headers)), extra=extra)


def _groups(user: str, said: Sequence[str]) -> tuple[str, ...]:
    """As every API server adds it to whom the front proxy has authenticated. The aggregator's own look for what is served
    comes without groups; were that refused, it would take our group for stale, and no namespace could be deleted."""
    if user == ANONYMOUS or {AUTHENTICATED, UNAUTHENTICATED} & set(said):
        return tuple(said)
    return (*said, AUTHENTICATED)


def review(who: Caller, *, path: str, namespace: str = "", metric: str = "") -> dict[str, Any]:
    """A SubjectAccessReview: may he have that metric there, or, without one, read at that path?

    The values of a metric are a collection, so the API server has asked about ``list`` itself when the request comes here.
    """
    of_metric = {"group": GROUP, "version": VERSION, "namespace": namespace, "resource": metric, "verb": "list"}
    asked = {"resourceAttributes": of_metric} if metric else {"nonResourceAttributes": {"path": path, "verb": "get"}}
    spec = {"user": who.user, "groups": list(who.groups), "extra": {key: list(of) for key, of in who.extra.items()}}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {**spec, **asked}}


def _given(headers: Sequence[tuple[str, str]], names: Sequence[str]) -> list[str]:
    wanted = {name.lower() for name in names}
    return [value for name, value in headers if name in wanted]


def _words(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    try:
        found = json.loads(data.get(key) or "[]")
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise NoFrontProxy(f"{PLACE}: {key} is not a list of words in JSON: see what wrote it.")
    return tuple(found)
