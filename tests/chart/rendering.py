"""What Helm makes of the chart, and the files in the repository that are made of that.

``python -m tests.chart.rendering`` writes them anew: the chart's own copy of the CRDs, manifests/install.yaml, and the golden rendering
of a full values file. They are written from the rendering and nothing else, so each is held to it by a test.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.binaries import locate

Raw = dict[str, Any]
ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "soloist"
CRDS = ROOT / "manifests" / "crds"
INSTALL = ROOT / "manifests" / "install.yaml"
FULL = Path(__file__).parent / "full.yaml"
GOLDEN = Path(__file__).parent / "golden" / "full.yaml"
NOTES = Path(__file__).parent / "golden" / "notes.txt"

HEADING = """\
# What the chart installs by default, for those who do not use Helm; a test holds it equal to that.
#
#   kubectl apply --server-side -f manifests/install.yaml
#
# Only the namespace is added here. No image is published yet: where the image goes, see docs/install.md.
apiVersion: v1
kind: Namespace
metadata:
  name: soloist
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


@cache
def helm_binary() -> Path:
    return locate("helm")["helm"]


def helm(*arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [helm_binary(), *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=120
    )


def rendered(values: Raw | Path | None = None, *more: str, release: str = "soloist", namespace: str = "soloist") -> str:
    """The manifests as text; AssertionError with Helm's words where it refuses."""
    text = values.read_text(encoding="utf-8") if isinstance(values, Path) else json.dumps(values or {}, sort_keys=True)
    code, out, said = _run("template", text, more, release, namespace)
    assert code == 0, said
    return out


def refused(values: Raw) -> str:
    """What Helm says; AssertionError where it renders."""
    code, _, said = _run("template", json.dumps(values), (), "soloist", "soloist")
    assert code != 0, "it was rendered"
    return said


def notes(values: Raw | Path | None = None, *, release: str = "soloist", namespace: str = "soloist") -> str:
    """What is said after an installation."""
    text = values.read_text(encoding="utf-8") if isinstance(values, Path) else json.dumps(values or {})
    code, out, said = _run("install", text, ("--dry-run=client",), release, namespace)
    assert code == 0, said
    return out.partition("NOTES:\n")[2]


@cache
def _run(command: str, values: str, more: tuple[str, ...], release: str, namespace: str) -> tuple[int, str, str]:
    """The same values render alike, so each are rendered once."""
    done = helm(command, release, CHART, "--namespace", namespace, "-f", "-", *more, stdin=values)
    return done.returncode, done.stdout, done.stderr


def documents(text: str) -> list[Raw]:
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(text: str, *kinds: str) -> list[Raw]:
    return [document for document in documents(text) if document["kind"] in kinds]


def one(text: str, kind: str, name: str) -> Raw:
    (found,) = [document for document in of_kind(text, kind) if document["metadata"]["name"] == name]
    return found


def without_sources(text: str) -> str:
    """Helm names the template above each object, and parts objects by a line of its own."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# Source: "))


def install_manifest() -> str:
    return HEADING + without_sources(rendered(None, "--no-hooks"))


def golden() -> str:
    """The full values file, without the CRDs, which have no values in them."""
    return without_sources(rendered(FULL, "--set", "crds.enabled=false", release="prod", namespace="jobs"))


def golden_notes() -> str:
    parts = {"by default": notes(), "of the full values file": notes(FULL, release="prod", namespace="jobs")}
    return "\n".join(f"==== {name}\n{text}" for name, text in parts.items())


def main() -> None:
    for crd in CRDS.glob("*.yaml"):
        (CHART / "files" / "crds" / crd.name).write_bytes(crd.read_bytes())
    INSTALL.write_text(install_manifest(), encoding="utf-8")
    GOLDEN.write_text(golden(), encoding="utf-8")
    NOTES.write_text(golden_notes(), encoding="utf-8")


if __name__ == "__main__":
    main()
