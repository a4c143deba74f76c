"""What a machine refuses to a node is said in a sentence that the gate knows; programs of ours stand for those of the machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster import node_probe
from tests.cluster.node_binaries import PACKAGES
from tests.cluster.versions import Unavailable
from tests.docs.pages import ROOT

LISTENS = """#!/bin/sh
mkdir "$(dirname "$2")/containerd.sock"
sleep 600
"""
REFUSES = "#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Of a machine that lets everything be done."""
    monkeypatch.setenv("SOLOIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(node_probe, "SETTINGS", ())
    monkeypatch.setattr(node_probe, "KERNEL_LOG", tmp_path)
    monkeypatch.setattr(node_probe, "CNI", tmp_path)
    made = {name: tmp_path / name for name in (*PACKAGES, "iptables-restore", "bridge")}
    for path in made.values():
        path.write_text("#!/bin/sh\n")
    made["ctr"].write_text("#!/bin/sh\necho it runs\n")
    made["containerd"].write_text(LISTENS)
    for path in made.values():
        path.chmod(0o755)
    monkeypatch.setattr(node_probe, "busybox_archive", lambda: made["busybox"])
    return made


def test_a_machine_that_lets_everything_be_done_is_asked_no_more(tmp_path: Path, programs: dict[str, Path]) -> None:
    node_probe.ask(tmp_path / "node", programs)


@pytest.mark.parametrize("program", ["iptables-restore", "containerd", "ctr", "ip", "bridge"])
def test_what_is_refused_is_said_in_words_that_the_gate_lets_pass(
    tmp_path: Path, programs: dict[str, Path], program: str
) -> None:
    programs[program].write_text(REFUSES)
    with pytest.raises(Unavailable, match="Operation not permitted") as refused:
        node_probe.ask(tmp_path / "node", programs)
    assert passes(f"no real node here: {refused.value}")


def test_a_setting_that_may_not_be_written_is_named(
    tmp_path: Path, programs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_probe, "SETTINGS", ("no/such/setting",))
    with pytest.raises(Unavailable, match="/proc/sys/no/such/setting cannot be written"):
        node_probe.ask(tmp_path / "node", programs)


def test_a_container_that_says_nothing_has_not_run(tmp_path: Path, programs: dict[str, Path]) -> None:
    programs["ctr"].write_text("#!/bin/sh\n")
    with pytest.raises(Unavailable, match="This machine cannot run a node: a container"):
        node_probe.ask(tmp_path / "node", programs)


def test_the_gate_lets_pass_that_packages_are_missing_and_nothing_that_is_ours() -> None:
    assert passes("no real node here: A node needs system packages: apt-get install runc.")
    assert not passes("no real node here: Go could not build kubelet: no space left on device")


def test_the_gate_installs_what_a_node_is_made_of() -> None:
    listed = re.search(r"^node=\((.+)\)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed is not None
    assert set(listed[1].split()) == {*PACKAGES.values(), "containernetworking-plugins"}


def passes(reason: str) -> bool:
    lines = (ROOT / ".ci" / "skips").read_text(encoding="utf-8").splitlines()
    return any(line.partition(" | ")[0] in reason for line in lines if not line.startswith("#"))
