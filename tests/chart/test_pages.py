"""What the pages tell people to type about the chart is taken by it."""

from __future__ import annotations

import re
import shlex
import textwrap
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, ROOT, helm, of_kind, one, rendered

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
SCALING = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
KIND = ROOT / "manifests" / "kind.yaml"
COMMANDS = sorted({command for text in (README, PAGE, KIND.read_text()) for command in re.findall(r"helm install soloist [^\n#`&]+", text)})  # fmt: skip
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def blocks() -> list[dict[str, Any]]:
    """The values files in the pages, those in lists too; the rest is for other programs."""
    found = [
        next(yaml.safe_load_all(textwrap.dedent(text)))
        for text in re.findall(r"^ *```yaml\n(.*?)^ *```", PAGE + SCALING, re.DOTALL | re.MULTILINE)
    ]
    return [values for values in found if not values.keys() & {"kind", "rules"}]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_installs_renders(command: str) -> None:
    words = shlex.split(command)[2:]
    done = helm("template", *(str(CHART) if word == "charts/soloist" else word for word in words))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("values", blocks(), ids=lambda values: " ".join(values))
def test_values_that_are_shown_render(values: dict[str, Any]) -> None:
    assert values.keys() <= VALUES.keys()
    assert rendered(values)


@pytest.mark.parametrize("text", [README, PAGE, KIND.read_text(encoding="utf-8")], ids=["README", "install", "kind"])
def test_the_image_that_people_build_is_the_one_that_the_chart_looks_for(text: str) -> None:
    (image,) = {
        each["spec"]["template"]["spec"]["containers"][0]["image"] for each in of_kind(rendered(), "Deployment")
    }
    assert f"docker build -t {image} ." in text
    assert set(re.findall(r"\bsoloist:\d[\w.]*", text)) == {image}


def test_the_pages_show_commands_and_values() -> None:
    assert len(COMMANDS) >= 2
    assert len(blocks()) == 4


def test_the_installation_of_the_readme_lets_its_example_read_the_authority_that_it_names() -> None:
    (command,) = [command for command in COMMANDS if "secrets.namespaces" in command and command in README]
    flags = shlex.split(command)[4:]
    text = helm("template", "soloist", CHART, *flags).stdout
    assert one(text, "RoleBinding", "soloist-keys")["metadata"]["namespace"] == "default"
    example = yaml.safe_load((ROOT / "manifests/examples/http-every-30-seconds.yaml").read_text(encoding="utf-8"))
    assert example["spec"]["http"]["tls"]["caConfigMapRef"]
    (role,) = [role for role in of_kind(text, "ClusterRole") if role["metadata"]["name"] == "soloist-keys"]
    assert "configmaps" in role["rules"][0]["resources"]


def test_the_cluster_of_the_manifests_has_a_node_for_each_replica() -> None:
    roles = [node["role"] for node in yaml.safe_load(KIND.read_text(encoding="utf-8"))["nodes"]]
    assert roles.count("worker") >= VALUES["controller"]["replicas"]
