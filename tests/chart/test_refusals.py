"""Wrong values are refused before anything is sent, with a sentence that names the value and what to write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from soloist.domain.errors import ConfigError
from soloist.shells.settings import ControllerSettings
from tests.chart.rendering import CHART, ROOT, helm, refused, rendered

DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
MAY_BE_NULL = {"runAsUser", "worker.replicas"}
"""The comments beside them say what it means."""
OPEN = {"resources", "labels", "targetCPUUtilizationPercentage"}
"""Of the first two people take out what they do not want; without the last there must be something else to scale by."""

BY_SCHEMA: list[tuple[dict[str, Any], str]] = [
    ({"controler": {"replicas": 3}}, "at '': additional properties 'controler' not allowed"),
    ({"controller": {"replicas": -1}}, "at '/controller/replicas': minimum: got -1, want 0"),
    ({"controller": {"replicas": "two"}}, "at '/controller/replicas': got string, want integer"),
    ({"controller": {"settings": {"leaseDuration": 2.5}}}, "at '/controller/settings/leaseDuration': got number, want integer"),
    ({"controller": {"settings": {"claimAhead": 90}}}, "at '/controller/settings/claimAhead': maximum: got 90, want 60"),
    ({"controller": {"settings": {"logLevel": "loud"}}}, "at '/controller/settings/logLevel': value must be one of 'debug', 'info', 'warning', 'error'"),
    ({"controller": {"settings": {"leaseduration": 20}}}, "at '/controller/settings': additional properties 'leaseduration' not allowed"),
    ({"controller": {"settings": {"httpDeny": ["internal"]}}}, "at '/controller/settings/httpDeny/0': 'internal' does not match pattern '^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$'"),
    ({"controller": {"extraEnv": [{"name": "A", "valeu": "b"}]}}, "at '/controller/extraEnv/0': additional properties 'valeu' not allowed"),
    ({"controller": {"resources": {"request": {"cpu": "1"}}}}, "at '/controller/resources': additional properties 'request' not allowed"),
    ({"controller": {"settings": {"stalenessLimit": 29}}}, "at '/controller/settings/stalenessLimit': minimum: got 29, want 30"),
    ({"worker": {"settings": {"stalenessLimit": 60}}}, "at '/worker/settings/stalenessLimit': minimum: got 60, want 100"),
    ({"worker": {"autoscaling": {"minReplicas": 0}}}, "at '/worker/autoscaling/minReplicas': minimum: got 0, want 1"),
    ({"worker": {"podDisruptionBudget": {"minAvailable": 1}}}, "at '/worker/podDisruptionBudget': additional properties 'minAvailable' not allowed"),
    ({"namespaces": "billing"}, "at '/namespaces': got string, want array"),
    ({"namespaces": ["Billing"]}, "at '/namespaces/0': 'Billing' does not match pattern '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'"),
    ({"secrets": {"access": True}}, "at '/secrets': additional properties 'access' not allowed"),
    ({"actions": {"job": "no"}}, "at '/actions/job': got string, want boolean"),
    ({"image": {"tag": 1.5}}, "at '/image/tag': got number, want string"),
    ({"image": {"repository": ""}}, "at '/image/repository': minLength: got 0, want 1"),
    ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"),
    ({"image": {"digest": "sha256:12"}}, "at '/image/digest': 'sha256:12' does not match pattern '^(sha256:[0-9a-f]{64})?$'"),
    ({"runAsUser": 0}, "at '/runAsUser': minimum: got 0, want 1"),
    ({"worker": {"settings": {"grace": None}}}, "at '/worker/settings': missing property 'grace'"),
    ({"controller": {"replicas": None}}, "at '/controller': missing property 'replicas'"),
    ({"controller": {"settings": None}}, "at '/controller': missing property 'settings'"),
    ({"migration": None}, "at '': missing property 'migration'"),
    ({"migration": {"secret": "db"}}, "at '/migration': additional properties 'secret' not allowed"),
    ({"monitoring": {"podMonitor": {"interval": "often"}}}, "at '/monitoring/podMonitor/interval': 'often' does not match pattern '^([0-9]+(ms|s|m|h))*$'"),
]  # fmt: skip

CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"controller": {"settings": {"leaseMargin": 0.5}}}, "controller.settings.leaseMargin is 0.5: with a leaseDuration of 10 write at least 1 and less than 5."),
    ({"controller": {"settings": {"leaseMargin": 5}}}, "controller.settings.leaseMargin is 5: with a leaseDuration of 10 write at least 1 and less than 5."),
    ({"controller": {"settings": {"leaseRetryPeriod": 3.5}}}, "controller.settings.leaseRetryPeriod is 3.5: leaseDuration (10) less leaseMargin (1) must hold it three times; write at most 3."),
    ({"controller": {"settings": {"claimAhead": 1}}}, "controller.settings.recordAhead is 2: write at most claimAhead (1)."),
    ({"controller": {"settings": {"stalenessLimit": 120}}}, "controller.settings.stalenessLimit is 120: every pause between two lists would stop all launches; write more than relist (120)."),
    ({"namespaces": ["billing"], "secrets": {"namespaces": ["mail"]}}, 'secrets.namespaces has "mail", which is not served: name it in namespaces too, or take it out.'),
    ({"secrets": {"namespaces": ["*", "mail"]}}, 'secrets.namespaces has "*" beside names: write ["*"] for all namespaces, or names alone.'),
    ({"worker": {"serviceAccount": {"create": False}}}, "worker.serviceAccount.create is false: write the name of one that exists in worker.serviceAccount.name."),
    ({"externalMetrics": {"enabled": True, "existingSecret": "tls"}}, 'externalMetrics.existingSecret is "tls", of which nobody knows the authority: write it in externalMetrics.caBundle, or in externalMetrics.annotations what injects it.'),
    ({"worker": {"autoscaling": {"minReplicas": 12}}}, "worker.autoscaling.minReplicas is 12: write at most maxReplicas (10)."),
    ({"worker": {"autoscaling": {"targetCPUUtilizationPercentage": None}}}, "worker.autoscaling has nothing to scale by: write targetCPUUtilizationPercentage or metrics, or enabled: false."),
]  # fmt: skip


@pytest.mark.parametrize(("values", "sentence"), BY_SCHEMA, ids=[sentence for _, sentence in BY_SCHEMA])
def test_a_value_that_the_schema_does_not_know_is_refused(values: dict[str, Any], sentence: str) -> None:
    said = refused(values)
    if helm("version", "--template", "{{.Version}}").stdout.startswith("v4."):
        assert f"- {sentence}\n" in said
    else:
        # An older Helm words it in its own way, and names the same.
        path, _, rest = sentence.removeprefix("at ").partition(": ")
        assert all(part in said for part in path.strip("'").split("/"))
        assert all(word in said for word in re.findall(r"(?:additional properties|missing property) '([^']+)'", rest))


def nulls(values: dict[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if name not in OPEN:
            yield (*at, name)
            if isinstance(value, dict):
                yield from nulls(value, (*at, name))


@pytest.mark.parametrize("path", list(nulls(DEFAULTS)), ids=".".join)
def test_a_value_that_is_taken_out_is_refused_by_name_or_means_what_it_means_when_it_is_empty(
    path: tuple[str, ...],
) -> None:
    default: Any = DEFAULTS
    values: Any = None
    for name in path:
        default = default[name]
    for name in reversed(path):
        values = {name: values}
    if default in (None, "", [], {}) or ".".join(path) in MAY_BE_NULL:
        assert rendered(values)
    else:
        assert f"missing property '{path[-1]}'" in refused(values) or f"{path[-1]} is required" in refused(values)


@pytest.mark.parametrize("version", ["1.29", "1.29.15", "1.29.15-gke.100", "1.9"])
def test_a_cluster_that_is_too_old_is_refused_in_the_words_of_helm(version: str) -> None:
    done = helm("template", "soloist", CHART, "--kube-version", version)
    assert done.returncode != 0
    sentence = f"chart requires kubeVersion: >=1.30.0-0 which is incompatible with Kubernetes v{version}"
    assert sentence in done.stderr


@pytest.mark.parametrize("version", ["1.30", "1.30.0-eks-123", "1.36.3", "1.99"])
def test_a_cluster_that_is_new_enough_for_the_kinds_is_taken(version: str) -> None:
    """Those whose vendors add to the version among them."""
    assert helm("template", "soloist", CHART, "--kube-version", version).returncode == 0
    assert "It takes Kubernetes 1.30 or newer" in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("values", "sentence"), CONTRADICTIONS, ids=[sentence for _, sentence in CONTRADICTIONS])
def test_values_that_contradict_each_other_are_refused(values: dict[str, Any], sentence: str) -> None:
    assert f": {sentence}\n" in refused(values)


@pytest.mark.parametrize(
    "given",
    [
        {"lease_duration": 1, "lease_margin": 0.1, "lease_retry_period": 0.3},
        {"lease_duration": 10, "lease_margin": 1, "lease_retry_period": 3},
        {"lease_duration": 10, "lease_margin": 4.9, "lease_retry_period": 1.7},
        {"lease_duration": 10, "lease_margin": 4.9, "lease_retry_period": 1.8},
        {"lease_duration": 10, "lease_margin": 0.9},
        {"lease_duration": 3601, "lease_margin": 400},
        {"claim_ahead": 2, "record_ahead": 2},
        {"claim_ahead": 1.5, "record_ahead": 2},
        {"claim_ahead": 61},
        {"relist": 299},
        {"relist": 300},
        {"measure_queues": 0},
        {"grace": 0},
        {"max_http_runs": 0},
    ],
    ids=str,
)
def test_the_chart_refuses_what_the_controller_would_refuse_at_its_start_and_nothing_else(
    given: dict[str, Any],
) -> None:
    camel = {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): value for name, value in given.items()}
    values = {"crds": {"enabled": False}, "controller": {"settings": camel}}
    try:
        ControllerSettings(**given)
    except ConfigError:
        assert refused(values)
    else:
        assert rendered(values)
