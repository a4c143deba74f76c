"""The chart as a release publishes it: it names the image that was built with it, by its digest. What the workflow runs is run here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from soloist import __version__
from tests.chart.rendering import CHART, ROOT, helm, helm_binary, of_kind

WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text(encoding="utf-8"))
STEP = "The chart names the image of this release, and is packaged"
IMAGE, DIGEST = "registry.example.com/owner/repository", f"sha256:{'0123456789abcdef' * 4}"
Raw = dict[str, Any]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    shutil.copytree(CHART, folder / "charts" / "soloist")
    (step,) = [each for each in WORKFLOW["jobs"]["chart"]["steps"] if each.get("name") == STEP]
    env = {"IMAGE": IMAGE, "DIGEST": DIGEST, "PATH": f"{helm_binary().parent}:{os.environ['PATH']}"}
    env["HOME"] = str(folder)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "dist" / f"soloist-{__version__}.tgz"


def test_every_pod_of_it_runs_the_image_of_the_release(package: Path) -> None:
    done = helm("template", "soloist", package, "--set", "migration.existingSecret=backend-db")
    assert done.returncode == 0, done.stderr
    owners = of_kind(done.stdout, "Deployment", "Job", "Pod")
    pods = [each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"] for each in owners]
    assert len(pods) == 4
    assert {container["image"] for pod in pods for container in pod["containers"]} == {f"{IMAGE}@{DIGEST}"}


def test_its_annotations_are_those_of_the_chart_and_the_image(package: Path) -> None:
    shown = yaml.safe_load(helm("show", "chart", package).stdout)["annotations"]
    images = yaml.safe_load(shown.pop("artifacthub.io/images"))
    assert images == [{"name": "soloist", "image": f"{IMAGE}@{DIGEST}"}]
    assert shown == yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["annotations"]


def test_what_is_pushed_is_signed_and_its_provenance_told() -> None:
    for job, what in {"image": "$IMAGE@$DIGEST", "chart": "$IMAGE/charts/soloist@$DIGEST"}.items():
        steps = json.dumps(WORKFLOW["jobs"][job]["steps"])
        assert f'cosign sign --yes \\"{what}\\"' in steps
        assert "actions/attest-build-provenance@" in steps
        assert WORKFLOW["jobs"][job]["permissions"]["id-token"] == "write"


def test_the_image_is_pushed_with_what_it_is_made_of() -> None:
    steps = WORKFLOW["jobs"]["image"]["steps"]
    (built,) = [step for step in steps if step.get("id") == "built"]
    (listed,) = [step for step in steps if step.get("uses", "").startswith("anchore/sbom-action@")]
    (told,) = [step for step in steps if step.get("uses", "").startswith("actions/attest-sbom@")]
    assert built["with"]["sbom"] is True
    assert told["with"]["sbom-path"] == listed["with"]["output-file"]
    assert built["with"]["push"] is told["with"]["push-to-registry"] is True
