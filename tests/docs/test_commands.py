"""Every command in the README is run by something, and what runs it is named here: a new command needs a line."""

from __future__ import annotations

import re

import pytest

from soloist.shells.cli import cli
from tests.docs.pages import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = "make|docker|kind|helm|kubectl|pip|soloist"
CLI, QUEUES, SCENES = "tests/api/test_cli.py", "tests/api/test_cli_queue.py", "tests/e2e/scene_1_installed.py"
WALK, GATE = ".github/workflows/e2e.yaml", ".ci/run"
RUN_BY = {
    # The gate runs these as they stand.
    "make demo": (GATE, "make demo\n"),
    "make demo-cluster": (GATE, "make demo-cluster\n"),
    "make test": (GATE, "make test\n"),
    # The workflow runs the quick start as it stands; here the scenes do the same with an image and a node of their own.
    "docker build -t soloist:0.1.0 .": (WALK, "## Quick start"),
    "kind create cluster --config manifests/kind.yaml": (WALK, "## Quick start"),
    "kind load docker-image soloist:0.1.0 --name soloist": (WALK, "## Quick start"),
    "helm install soloist charts/soloist --namespace soloist --create-namespace --set 'secrets.namespaces={default}'": (WALK, "## Quick start"),
    "helm test soloist --namespace soloist --logs": (SCENES, 'helm("test", RELEASE'),
    "kubectl apply -f manifests/examples/http-every-30-seconds.yaml": (SCENES, '"apply", "-f", EXAMPLES / "http-every-30-seconds.yaml"'),
    "kubectl get sj,jr": (SCENES, '"get", "sj,jr'),
    "kubectl apply --server-side -f manifests/install.yaml": ("tests/chart/test_combinations.py", '"apply", "--server-side", "-f", INSTALL'),
    "kubectl soloist why JOB --at 02:00": (CLI, '"soloist", "why"'),
    "kubectl soloist status -A": (CLI, 'soloist("status", "-A"'),
    "kubectl explain sj.spec": ("tests/crds/test_examples.py", 'kubectl("explain", path)'),
    "pip install .": ("Dockerfile", "pip"),
    "make bench-ticks": ("Makefile", "tests.bench.ticks"),
    "make bench-queue": ("Makefile", "tests.bench.queue"),
    "make demo-kind": (WALK, "make demo-kind"),
    "make e2e": (WALK, "make e2e"),
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
NOT_OURS = {"kubectl create job --from"}


def commands() -> set[str]:
    """Those in blocks, each of several in a line, and those in the text."""
    lines = [line for block in re.findall(r"^```\n(.*?)^```", README, re.DOTALL | re.MULTILINE) for line in block.splitlines()]  # fmt: skip
    parts = [part.partition("  #")[0].strip() for line in lines for part in line.split(" && ")]
    shown = {part.removeprefix("$ ") for part in parts if re.match(rf"(\$ )?({PROGRAMS}) ", part)}
    named = {found.strip() for found in re.findall(rf"`((?:{PROGRAMS}) [^`]+)`", README)}
    return (shown | named) - {"kubectl soloist …"}


def test_every_command_of_the_readme_is_run_by_something() -> None:
    """Of make's targets test_make.py asks that they exist; some take too long to be run by others."""
    assert {each for each in commands() - NOT_OURS - RUN_BY.keys() if not each.startswith("make ")} == set()
    assert "make demo" in commands()
    assert 'soloist preview "0 2 * * *" --zone Europe/Berlin' in commands()


def test_no_line_here_is_of_a_command_that_the_readme_has_no_more() -> None:
    assert RUN_BY.keys() - commands() == set()


@pytest.mark.parametrize("command", RUN_BY)
def test_what_runs_it_has_the_words_that_do(command: str) -> None:
    file, words = RUN_BY[command]
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
