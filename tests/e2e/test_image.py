"""What the Dockerfile takes in is locked, and what is locked for the image is what the tests run on."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
PIN = re.compile(r"^([a-z0-9.-]+)==(\S+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / ".ci" / name).read_text(encoding="utf-8")))


def test_the_image_has_the_versions_that_the_tests_run_on_and_no_others() -> None:
    tested, shipped = pins("requirements.txt"), pins("requirements-image.txt")
    assert shipped
    assert shipped.items() <= tested.items()


def test_what_is_for_development_is_not_shipped() -> None:
    assert not {"pytest", "mypy", "ruff", "hatchling", "pip"} & pins("requirements-image.txt").keys()


def test_everything_that_is_installed_is_held_to_its_hash() -> None:
    for name in ("requirements-build.txt", "requirements-image.txt"):
        text = (ROOT / ".ci" / name).read_text(encoding="utf-8")
        entries = re.split(PIN, text)[3::3]
        assert entries, name
        assert all("--hash=sha256:" in entry for entry in entries), name


def test_what_the_dockerfile_copies_is_let_through() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    let_through = {line[1:] for line in ignored if line.startswith("!")}
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = {word for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for word in line.split()}
    assert {word.replace("[s]", "s") for word in copied} == let_through


def test_nothing_in_the_final_stage_needs_a_shell_or_root() -> None:
    final = (ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("FROM ${BASE}")[2]
    assert "USER 65532:65532" in final
    assert re.search(r'^ENTRYPOINT \["/opt/soloist/bin/soloist"\]$', final, re.MULTILINE)
    assert not re.search(r"^(RUN|SHELL|ADD) ", final, re.MULTILINE)


def test_the_workflows_are_yaml_and_ask_for_no_rights_by_default() -> None:
    assert {"e2e.yaml", "release.yaml", "scorecard.yaml"} <= {path.name for path in WORKFLOWS}
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] in ({}, {"contents": "read"}), path


def test_each_action_of_a_workflow_is_of_a_version() -> None:
    used = [name for path in WORKFLOWS for name in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@v\d+(\.\d+)*", name)] == []
