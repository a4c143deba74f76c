"""A ServiceAccount for a controller, with exactly the rights and the token that a test gives it, and takes from it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.api.crew import Controller, Crew

Raw = dict[str, Any]


class Account:
    """A ServiceAccount, its rights, and a token file whose token can be taken from it."""

    def __init__(self, crew: Crew, file: Path) -> None:
        self.crew, self.file, self._api = crew, file, crew.cluster.api()
        self._secret = ""
        self.token = ""
        self._api.create(crew.namespace.path("serviceaccounts"), {"metadata": {"name": "controller"}})

    def may(self, namespace: str, rules: list[Raw]) -> None:
        """Exactly this, in that namespace, from now on."""
        meta, group = {"name": "controller", "namespace": namespace}, "rbac.authorization.k8s.io"
        account = {"kind": "ServiceAccount", "name": "controller", "namespace": self.crew.namespace.name}
        role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules}
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "subjects": [account],
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "controller"},
        }
        self.crew.cluster.kubectl(
            "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [role, binding]})
        )

    def rotate(self) -> None:
        """Another token in the file. It is bound to a Secret, so that it can be revoked."""
        self._secret = f"bound-{uuid.uuid4().hex[:8]}"
        made = self._api.create(self.crew.namespace.path("secrets"), {"metadata": {"name": self._secret}})
        bound = {"kind": "Secret", "apiVersion": "v1", "name": self._secret, "uid": made["metadata"]["uid"]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
        answer = self._api.create(self.crew.namespace.path("serviceaccounts", "controller/token"), body)
        self.token = answer["status"]["token"]
        made_file = self.file.with_suffix(".new")
        made_file.write_text(self.token)
        made_file.replace(self.file)

    def revoke(self, secret: str, token: str) -> None:
        """Returns when the API server, which remembers tokens for ten seconds, says 401 to it."""
        self._api.delete(self.crew.namespace.path("secrets", secret))
        api = self.crew.cluster.api(token=token)
        self.crew.wait(lambda: api.raw("GET", self.crew.namespace.ours("jobruns"))[0] == 401, what="a 401")

    @property
    def current(self) -> tuple[str, str]:
        return self._secret, self.token


RUNS: Raw = {
    "apiGroups": ["soloist.dev"],
    "resources": ["jobruns"],
    "verbs": ["get", "list", "watch", "create", "delete"],
}
REST: list[Raw] = [
    {"apiGroups": ["soloist.dev"], "resources": ["scheduledjobs"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["soloist.dev"], "resources": ["scheduledjobs/status"], "verbs": ["update"]},
    {"apiGroups": ["soloist.dev"], "resources": ["jobruns/status"], "verbs": ["patch"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "update"],
    },
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch"]},
]


@pytest.fixture
def account(crew: Crew, tmp_path: Path) -> Account:
    made = Account(crew, tmp_path / "token")
    made.may(crew.namespace.name, [RUNS, *REST])
    made.rotate()
    return made


def start_as(crew: Crew, account: Account, name: str, *, server: str | None = None, **env: str) -> Controller:
    config = crew.cluster.kubeconfig(
        crew.folder / "by-token-file", user="controller", token_file=account.file, server=server
    )
    return crew.start(name, KUBECONFIG=str(config), **env)
