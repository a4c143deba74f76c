"""What `helm uninstall` takes along and what it leaves, as docs/install.md says it: held to an API server, and to a node."""

from __future__ import annotations

from collections.abc import Callable

from tests.chart.rendering import ROOT

PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
SAID_TAKEN, _, SAID_LEFT = " ".join(PAGE.split("\n- `helm uninstall ")[1].split("\n- ")[0].split()).partition(
    "What is left:"
)
TAKEN = {
    "deployment.apps": "Deployments",
    "horizontalpodautoscaler.autoscaling": "what scales",
    "poddisruptionbudget.policy": "protects them",
    "networkpolicy.networking.k8s.io": "protects them",
    "serviceaccount": "accounts",
    "role.rbac.authorization.k8s.io": "rights",
    "rolebinding.rbac.authorization.k8s.io": "rights",
    "clusterrole.rbac.authorization.k8s.io": "rights",
    "clusterrolebinding.rbac.authorization.k8s.io": "rights",
    "service": "Services",
    "configmap": "ConfigMaps",
    "flowschema.flowcontrol.apiserver.k8s.io": "the FlowSchema",
    "apiservice.apiregistration.k8s.io": "the APIService",
    "secret": "with its Secret",
    "validatingadmissionpolicy.admissionregistration.k8s.io": "the ValidatingAdmissionPolicy",
    "validatingadmissionpolicybinding.admissionregistration.k8s.io": "with its binding",
}
"""The kinds of which a release has something once ``ALL_ON`` is on, and the words of the page."""
ALL_ON = {
    "externalMetrics": {"enabled": True},
    "monitoring": {"dashboard": {"enabled": True}},
    "worker": {"podDeletionCost": True},
}
OF_HELM = ("-l", "app.kubernetes.io/managed-by=Helm")


def of_the_release(kubectl: Callable[..., str]) -> set[str]:
    """What has its label, of these kinds: each with its kind and its name."""
    return set(kubectl("get", ",".join(TAKEN), "-A", "-o", "name", *OF_HELM).split())


def kinds(found: set[str]) -> set[str]:
    return {name.partition("/")[0] for name in found}
