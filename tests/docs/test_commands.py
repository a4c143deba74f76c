"""Every command in the README is run by a test, which is named here, or has a reason why not: a new command needs a line."""

from __future__ import annotations

import re

import pytest

from soloist.shells.cli import cli
from tests.docs.pages import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = "make|docker|kind|helm|kubectl|pip|python3|soloist"
CLI, QUEUES, SCENES = "tests/api/test_cli.py", "tests/api/test_cli_queue.py", "tests/e2e/scene_1_installed.py"
WALK, NIGHTLY, GATE = ".github/workflows/e2e.yaml", ".github/workflows/nightly.yaml", ".ci/run"
RUN_BY = {
    # The gate runs these as they stand.
    "make demo": (GATE, "make demo\n"),
    "make demo-cluster": (GATE, "make demo-cluster\n"),
    "make test": (GATE, "make test\n"),
    # The scenes of `make e2e`, on a node of their own.
    "helm install soloist charts/soloist --namespace soloist --create-namespace --set 'secrets.namespaces={default}'": ("tests/chart/test_install_page.py", "helm install soloist charts/soloist --namespace soloist --create-namespace"),
    "helm test soloist --namespace soloist --logs": (SCENES, 'helm("test", RELEASE'),
    "kubectl apply -f manifests/examples/http-every-30-seconds.yaml": (SCENES, '"apply", "-f", EXAMPLES / "http-every-30-seconds.yaml"'),
    "kubectl get sj,jr,wq": (SCENES, '"get", "sj,jr,wq"'),
    "kubectl get sj,jr": (SCENES, '"get", "sj,jr'),
    "kubectl apply --server-side -f manifests/install.yaml": ("tests/chart/test_combinations.py", '"apply", "--server-side", "-f", INSTALL'),
    "kubectl soloist why JOB --at 02:00": (CLI, '"soloist", "why"'),
    "kubectl soloist status -A": (CLI, 'soloist("status", "-A"'),
    "kubectl explain sj.spec": ("tests/crds/test_examples.py", 'kubectl("explain", path)'),
    "soloist status": (CLI, 'soloist("status"'),
    "soloist runs JOB": (CLI, 'soloist("runs"'),
    "soloist why JOB [--at TIME]": (CLI, '"--at"'),
    "soloist trigger JOB [--wait]": (CLI, '"--wait"'),
    "soloist pause JOB": (CLI, 'soloist("pause", "report"'),
    "soloist pause --all": (CLI, 'soloist("pause", "--all"'),
    "soloist resume JOB": (CLI, 'soloist("resume", "report"'),
    "soloist resume --all": (CLI, 'soloist("resume", "--all"'),
    'soloist preview "0 2 * * *" --zone Europe/Berlin': ("tests/shells/test_cli.py", '"preview", "0 2 * * *", "--zone", "Europe/Berlin"'),
    "soloist migrate --database …": ("tests/queue/test_migrate.py", '"migrate"'),
    "soloist queue list": (QUEUES, 'soloist("list"'),
    "soloist queue check NAME [-f FILE]": ("tests/queue/test_cli_queue.py", '"check"'),
    "soloist queue register NAME": ("tests/queue/test_row_functions.py", '"register"'),
    "soloist queue dead NAME": (QUEUES, '"dead"'),
    "soloist queue retry NAME ID…": (QUEUES, '"retry"'),
    "soloist queue purge NAME ID…": (QUEUES, '"purge"'),
    "soloist standalone -f DIR": ("tests/standalone/crew.py", '"standalone"'),
    "soloist controller": ("tests/api/crew.py", '"controller"]'),
    "soloist worker": ("tests/queue/workers.py", '"worker"]'),
    "soloist elect --lease NAME": ("tests/api/elect_pods.py", '"elect"'),
}  # fmt: skip
"""Each command with a file that runs it, and the words in it that do."""
NOT_BY_A_TEST = {
    "docker build -t soloist:0.1.0 .": (WALK, "## Quick start", "it wants Docker; `make e2e` builds the same Dockerfile with buildah"),
    "kind create cluster --config manifests/kind.yaml": (WALK, "## Quick start", "it wants Docker with privileged containers"),
    "kind load docker-image soloist:0.1.0 --name soloist": (WALK, "## Quick start", "it wants a cluster of kind's"),
    "make demo-kind": (WALK, "make demo-kind", "it wants Docker; tests/cluster/test_kind.py goes as far as that"),
    "make e2e": (WALK, "make e2e", "it is tests itself; it wants root, or Docker, and makes a node"),
    "make test-long": (NIGHTLY, "make test-long", "it is tests itself, of a minute or more each, for a release"),
    "make adoption": (NIGHTLY, "make adoption", "it is tests itself, of a minute or more each, and npm fetches four backends for it"),
    "make bench-ticks": ("Makefile", "tests.bench.ticks", "half an hour on a machine that has nothing else to do"),
    "make bench-queue": ("Makefile", "tests.bench.queue", "a figure from a machine that does something else is none"),
    "make bench-standalone": ("Makefile", "tests.bench.standalone", "twelve minutes on a machine that has nothing else to do"),
    "pip install .": ("Makefile", "$(INSTALL) --no-deps -e .", "make installs the same in place, with what is locked; the Dockerfile does the wheel"),
    "python3 -m venv venv && . venv/bin/activate": ("Makefile", "-m venv $(VENV)", "make makes one of its own"),
    "kubectl create job --from": ("README.md", "`kubectl create job --from` among them", "of CronJobs: said of what does not know ScheduledJobs"),
}  # fmt: skip
"""Each with where it is run or stands, the words there, and why no test of the gate or of `make e2e` runs it."""


def commands() -> set[str]:
    """Those in blocks, each of several in a line, and those in the text."""
    lines = [line for block in re.findall(r"^```\n(.*?)^```", README, re.DOTALL | re.MULTILINE) for line in block.splitlines()]  # fmt: skip
    parts = [part.partition("  #")[0].strip() for line in lines for part in line.split(" && ")]
    shown = {part.removeprefix("$ ") for part in parts if re.match(rf"(\$ )?({PROGRAMS}) ", part)}
    named = {found.strip() for found in re.findall(rf"`((?:{PROGRAMS}) [^`]+)`", README)}
    return (shown | named) - {"kubectl soloist …"}


def test_every_command_of_the_readme_is_run_by_a_test_or_has_a_reason() -> None:
    assert commands() - RUN_BY.keys() - NOT_BY_A_TEST.keys() == set()
    assert "make demo" in commands()
    assert 'soloist preview "0 2 * * *" --zone Europe/Berlin' in commands()


def test_no_line_here_is_of_a_command_that_the_readme_has_no_more() -> None:
    assert RUN_BY.keys() | NOT_BY_A_TEST.keys() == commands()


def test_no_command_is_both_run_and_not() -> None:
    assert RUN_BY.keys() & NOT_BY_A_TEST.keys() == set()
    assert {file for file, _ in RUN_BY.values() if not file.startswith("tests/")} == {GATE}


@pytest.mark.parametrize("command", [*RUN_BY, *NOT_BY_A_TEST])
def test_what_runs_it_has_the_words_that_do(command: str) -> None:
    file, words, *_ = {**RUN_BY, **NOT_BY_A_TEST}[command]
    assert words in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", sorted(command for command in commands() if " soloist " in f" {command}" and command.split()[0] in ("soloist", "kubectl") and "install.yaml" not in command))  # fmt: skip
def test_its_subcommand_and_options_exist(command: str) -> None:
    words = command.removeprefix("kubectl ").split()[1:]
    found = cli.commands[words[0]]
    if words[0] == "queue":
        found = found.commands[words[1]]  # type: ignore[attr-defined]
    options = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = {word.strip("[]").partition("=")[0] for word in words if word.strip("[]").startswith("-")}
    assert given <= options
