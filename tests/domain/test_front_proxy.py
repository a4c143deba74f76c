"""Who is believed to speak for somebody else, and what is asked about him."""

from __future__ import annotations

from typing import Any

import pytest

from soloist.domain.front_proxy import Caller, FrontProxy, NoFrontProxy, Stranger, caller, front_proxy, review

DATA = {
    "requestheader-client-ca-file": "-----BEGIN CERTIFICATE-----",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
FRONT = front_proxy(DATA)
ANNA = [("X-Remote-User", "anna"), ("X-Remote-Group", "mail"), ("x-remote-group", "system:authenticated")]


def test_the_front_proxy_says_who_asks() -> None:
    extra = [("X-Remote-Extra-Scopes.example.com%2fA", "one"), ("X-Remote-Extra-scopes.example.com%2fa", "two")]
    found = caller(FRONT, ["front-proxy-client"], [*ANNA, *extra, ("Authorization", "Bearer x")])
    groups = ("mail", "system:authenticated")
    assert found == Caller(user="anna", groups=groups, extra={"scopes.example.com/a": ["one", "two"]})


@pytest.mark.parametrize(
    ("user", "said", "groups"),
    [
        ("system:kube-aggregator", [], ("system:authenticated",)),
        ("anna", ["mail"], ("mail", "system:authenticated")),
        ("anna", ["system:authenticated", "mail"], ("system:authenticated", "mail")),
        ("system:anonymous", [], ()),
        ("system:anonymous", ["system:unauthenticated"], ("system:unauthenticated",)),
        ("stranger", ["system:unauthenticated"], ("system:unauthenticated",)),
    ],
)
def test_whoever_it_has_authenticated_is_of_the_group_of_those(
    user: str, said: list[str], groups: tuple[str, ...]
) -> None:
    headers = [("X-Remote-User", user), *(("X-Remote-Group", group) for group in said)]
    assert caller(FRONT, ["front-proxy-client"], headers).groups == groups


@pytest.mark.parametrize(
    ("names", "headers", "why"),
    [
        (None, ANNA, "Ask through the API server"),
        (["anna"], ANNA, "not one of the front proxy's"),
        ([], ANNA, "not one of the front proxy's"),
        (["front-proxy-client"], ANNA[1:], "does not say who"),
        (["front-proxy-client"], [("X-Remote-User", "")], "does not say who"),
    ],
)
def test_nobody_else_does(names: list[str] | None, headers: list[tuple[str, str]], why: str) -> None:
    with pytest.raises(Stranger, match=why):
        caller(FRONT, names, headers)


def test_a_cluster_that_names_no_name_takes_whatever_the_authority_signed_and_nothing_else() -> None:
    front = front_proxy({**DATA, "requestheader-allowed-names": "[]"})
    assert caller(front, ["any"], ANNA).user == "anna"
    with pytest.raises(Stranger):
        caller(front, None, ANNA)


@pytest.mark.parametrize(
    "changed",
    [
        {"requestheader-client-ca-file": ""},
        {"requestheader-username-headers": "[]"},
        {"requestheader-allowed-names": "front-proxy-client"},
        {"requestheader-group-headers": "[1]"},
    ],
)
def test_without_all_that_is_needed_there_is_none(changed: dict[str, str]) -> None:
    with pytest.raises(NoFrontProxy):
        front_proxy({**DATA, **changed})


def test_a_metric_is_asked_about_as_a_resource_and_the_rest_as_a_path() -> None:
    who = Caller(user="anna", groups=("mail",), extra={"scopes": ("one",)})
    spec: dict[str, Any] = {"user": "anna", "groups": ["mail"], "extra": {"scopes": ["one"]}}
    of_metric = review(who, path="/apis", namespace="billing", metric="soloist_queue_ready")["spec"]
    assert of_metric == {
        **spec,
        "resourceAttributes": {
            "group": "external.metrics.k8s.io",
            "version": "v1beta1",
            "namespace": "billing",
            "resource": "soloist_queue_ready",
            "verb": "list",
        },
    }
    assert review(who, path="/apis")["spec"] == {**spec, "nonResourceAttributes": {"path": "/apis", "verb": "get"}}


def test_what_is_read_is_whole() -> None:
    assert (
        FrontProxy(
            authority="-----BEGIN CERTIFICATE-----",
            names=("front-proxy-client",),
            user_headers=("X-Remote-User",),
            group_headers=("X-Remote-Group",),
            extra_prefixes=("X-Remote-Extra-",),
        )
        == FRONT
    )
