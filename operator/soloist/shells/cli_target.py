"""Which cluster a command speaks to, found as kubectl finds it; and every way of failing there as a sentence.

One short asyncio run for each command. What the API server, the network or the kubeconfig object to ends as one line on
stderr that says what to do, with exit code 1; never as a traceback.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from soloist.adapters.kube.answers import NotFound, Refusal
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.domain.errors import ConfigError, SoloistError, TransientError
from soloist.shells.cli_text import Complaint

T = TypeVar("T")
MOUNTED_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
INSTALL_CRDS = (
    "This cluster does not know ScheduledJobs (soloist.dev/v1alpha1). Install the CRDs: kubectl apply --server-side -f"
    " manifests/crds, or the Helm chart; or choose another cluster with --context."
)
_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``namespace`` is where one job is looked for; ``everywhere`` widens a listing. The Lease is that of the controllers.

    ``database``: the URL of one that ``soloist standalone`` lives in; then no cluster is asked. ``one_host``: an embedded one.
    ``flags``: what names it to the next command, each after a space.
    """

    kubeconfig: str
    context: str
    namespace: str
    everywhere: bool = False
    lease_name: str = "soloist"
    lease_namespace: str = ""
    database: str = ""
    one_host: bool = False
    flags: str = ""

    @classmethod
    def of(cls, *, kubeconfig: str, context: str, namespace: str, **more: Any) -> "Target":
        """With the namespace filled in: of the flag, the Pod, or the kubeconfig's context."""
        named = kubeconfig or context or os.environ.get("KUBECONFIG") or more.get("database")
        mounted = MOUNTED_NAMESPACE if not named else None
        found = namespace or (mounted.read_text(encoding="utf-8").strip() if mounted and mounted.exists() else "")
        if not more.get("database"):
            found = found or context_namespace(kubeconfig, context) or ""
        found = found or "default"
        return cls(kubeconfig=kubeconfig, context=context, namespace=found, **more)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """For a store; none means all."""
        return () if self.everywhere else (self.namespace,)


def context_namespace(kubeconfig: str, context: str) -> str | None:
    """The namespace that the kubeconfig's context names, None where it names none or cannot be read."""
    files = (kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    documents = [document for file in files if isinstance(document := _yaml(file), dict)]
    current = context or next((d["current-context"] for d in documents if d.get("current-context")), "")
    for document in documents:
        for item in document.get("contexts") or ():
            if isinstance(item, dict) and item.get("name") == current:
                return (item.get("context") or {}).get("namespace") or None
    return None


def _yaml(file: str) -> Any:
    """What cannot be read here is complained of by whoever makes the connection."""
    try:
        return yaml.safe_load(Path(file).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None


def talk(target: Target, conversation: Callable[[KubeApi], Awaitable[T]]) -> T:
    """Run one conversation with the API server; what goes wrong in it is a ``Complaint``."""

    async def inside() -> T:
        api = KubeApi(Access.found(target.kubeconfig or None, target.context or None), timeout=30.0)
        try:
            return await conversation(api)
        finally:
            await api.close()

    try:
        return asyncio.run(inside())
    except SoloistError as error:
        raise Complaint(sentence(error)) from error
    except yaml.YAMLError as error:
        raise Complaint(f"The kubeconfig cannot be read: {' '.join(str(error).split())}") from error


def sentence(error: SoloistError) -> str:
    """What a person can do about it."""
    if isinstance(error, NotFound) and "/apis/soloist.dev/" in str(error):
        return INSTALL_CRDS.replace("ScheduledJobs", "WorkQueues") if "/workqueues" in str(error) else INSTALL_CRDS
    if isinstance(error, Refusal) and error.status == 403:
        return forbidden(error)
    if isinstance(error, Refusal) and error.status == 401:
        return f"The API server does not know you (401): log in again, or choose another --context. ({error})"
    if isinstance(error, TransientError):
        return f"{error}. Nothing is known to have been changed; try again, or choose another --context."
    if isinstance(error, ConfigError):
        return (
            f"{error} Where soloist standalone runs, without a cluster, name its database: --embedded, or --database."
        )
    return str(error)


def forbidden(error: Refusal) -> str:
    """The right that is missing, or what else the server said with a 403 (a webhook may)."""
    return missing_right(str(error)) or str(error)


def missing_right(said: str) -> str | None:
    """The right that RBAC misses, as whoever gives rights needs to hear it."""
    match = _FORBIDDEN.search(said)
    if match is None:
        return None
    group = match["group"] or '""'
    full = f"{match['resource']}.{match['group']}" if match["group"] else match["resource"]
    rule = f"{{apiGroups: [{group}], resources: [{match['resource']}], verbs: [{match['verb']}]}}"
    if match["namespace"]:
        where, role = f"in namespace {match['namespace']}", "a Role there"
    else:
        where, role = "in all namespaces", "a ClusterRole"
    return f'User "{match["user"]}" may not {match["verb"]} {full} {where}: ask for {role} with the rule {rule}.'
