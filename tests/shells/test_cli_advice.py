"""Commands that are advised to somebody without a cluster: all of them, with the flags that name the database and without its URL."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from soloist.domain.why_facts import ABSENCE_REMEDY
from soloist.domain.why_words import PHASES, REASONS
from soloist.shells import cli_options
from soloist.shells.cli_advice import without_a_cluster
from soloist.shells.cli_options import cluster, target
from soloist.shells.cli_text import Complaint, emit
from tests.shells.cli_pages import GOLDEN

ADVISED = [(path.stem, path.read_text(encoding="utf-8")) for path in GOLDEN.glob("*.txt")]
ADVISED += [(str(each), words.do.format(job="a.b-2 -n default", key="k", run="r", name="a", namespace="b")) for table in (PHASES, REASONS) for each, words in table.items()]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("To go on: kubectl soloist resume --all.", "To go on: soloist resume --all --here."),
        ("To go on: kubectl soloist resume nightly", "To go on: soloist resume nightly --here"),
        ("then: kubectl soloist resume a.b.", "then: soloist resume a.b --here."),
        ("(kubectl soloist runs a -n b), then: kubectl soloist resume a -n b.", "(soloist runs a -n b --here), then: soloist resume a -n b --here."),
        ("kubectl soloist why a -n b --at TIME", "soloist why a -n b --at TIME --here"),
        ("the log (kubectl soloist status names it); is b", "the log (soloist status --here names it); is b"),
        ("See kubectl soloist runs a; start it again", "See soloist runs a --here; start it again"),
        ("-> kubectl soloist queue dead a -n b", "-> soloist queue dead a -n b --here"),
        ("See kubectl describe sj a -n b for what to write", "See soloist why a -n b --here for what to write"),
        ("of this namespace (kubectl get sj).", "of this namespace (soloist status --here)."),
        (
            "made it (kubectl get jobrun r-1 -n b -o yaml), and",
            "made it (SELECT * FROM soloist.objects WHERE (kind, namespace, name) = ('JobRun', 'b', 'r-1')), and",
        ),
        (f"-> {ABSENCE_REMEDY}", "-> Look at the processes on this database, or start one: soloist standalone -f DIR."),
        ({"do": ["kubectl soloist why a", 1], "of": None}, {"do": ["soloist why a --here", 1], "of": None}),
    ],
)  # fmt: skip
def test_a_command_is_advised_as_it_is_typed_without_a_cluster(said: object, shown: object) -> None:
    assert without_a_cluster(said, " --here") == shown


PACKAGE = Path(cli_options.__file__).parents[1]
FOR_A_CLUSTER = {"cli_target.py", "external_metrics_api.py"}
"""What says more than which command: how a cluster is reached, and what it lacks."""


def sentences() -> Iterator[tuple[str, str]]:
    """Every text of the program that names kubectl, with a name for whatever varies; what explains the code is none."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name in FOR_A_CLUSTER or path.parent.name == "kube":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        explained = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in (node for node in ast.walk(tree) if node not in parts | explained):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "a" for part in node.values)
            else:
                text = str(node.value) if isinstance(node, ast.Constant) else ""
            if "kubectl " in text:
                yield f"{path.stem}:{node.lineno}", re.sub(r"\{\w+\}", "a", text)


SENTENCES = dict(sentences())


@pytest.mark.parametrize("where", [where for where in SENTENCES if not where.startswith(("cli_advice:", "main:"))])
def test_no_sentence_of_the_program_names_kubectl_to_somebody_without_a_cluster(where: str) -> None:
    assert "kubectl" not in without_a_cluster(SENTENCES[where], " --here")


def test_sentences_are_found() -> None:
    assert {where.partition(":")[0] for where in SENTENCES} >= {
        "books",
        "conditions",
        "orphaned",
        "why_words",
        "cli_pause",
    }


@pytest.mark.parametrize(("_", "said"), ADVISED, ids=[name for name, _ in ADVISED])
def test_no_advice_is_left_as_it_is_on_a_cluster(_: str, said: str) -> None:
    shown = without_a_cluster(said, " --here")
    assert "kubectl soloist" not in shown
    commands = ("kubectl soloist", "kubectl describe sj", "kubectl get sj")
    assert shown.count(" --here") == sum(said.count(command) for command in commands)


@click.command()
@cluster
@click.option("--complain", is_flag=True)
def asks(complain: bool, **options: str) -> None:
    target(options)
    if complain:
        raise Complaint("First: kubectl soloist resume --all.")
    emit("table", None, ["kubectl soloist trigger nightly -n default"])


@pytest.mark.parametrize(
    ("typed", "variables", "shown"),
    [
        ([], {}, "kubectl soloist trigger nightly -n default"),
        (["--database", "postgresql://me:hush@db/x"], {}, "soloist trigger nightly -n default --database URL"),
        ([], {"SOLOIST_DATABASE": "postgresql://me:hush@db/x"}, "soloist trigger nightly -n default"),
        (["--embedded"], {}, "soloist trigger nightly -n default --embedded"),
        (["--embedded", "--data", "/my data"], {}, "soloist trigger nightly -n default --embedded --data '/my data'"),
        (["--data", "/x"], {"SOLOIST_EMBEDDED": "true"}, "soloist trigger nightly -n default --data /x"),
        (["--kubeconfig", "/none"], {"SOLOIST_EMBEDDED": "true"}, "kubectl soloist trigger nightly -n default"),
    ],
)
def test_the_flags_are_those_that_were_typed_and_no_url_is_shown(
    typed: list[str], variables: dict[str, str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_options, "_embedded", lambda folder: f"postgresql:///?host={folder}")
    unset = dict.fromkeys(("SOLOIST_DATABASE", "SOLOIST_EMBEDDED", "SOLOIST_DATA"))
    assert CliRunner(env=unset | variables).invoke(asks, typed).output == f"{shown}\n"


def test_what_is_complained_of_is_worded_too() -> None:
    done = CliRunner().invoke(asks, ["--complain", "--database", "postgresql://me:hush@db/x"])
    assert done.output == "Error: First: soloist resume --all --database URL.\n"
    assert "kubectl" in CliRunner(env={"SOLOIST_DATABASE": None, "SOLOIST_EMBEDDED": None}).invoke(asks, ["--complain"]).output  # fmt: skip
