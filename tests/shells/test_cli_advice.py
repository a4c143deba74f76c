"""Commands that are advised to somebody without a cluster: all of them, with the flags that name the database and without its URL."""

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
        (f"-> {ABSENCE_REMEDY}", "-> Look at the processes on this database, or start one: soloist standalone -f DIR."),
        ({"do": ["kubectl soloist why a", 1], "of": None}, {"do": ["soloist why a --here", 1], "of": None}),
    ],
)  # fmt: skip
def test_a_command_is_advised_as_it_is_typed_without_a_cluster(said: object, shown: object) -> None:
    assert without_a_cluster(said, " --here") == shown


@pytest.mark.parametrize(("_", "said"), ADVISED, ids=[name for name, _ in ADVISED])
def test_no_advice_is_left_as_it_is_on_a_cluster(_: str, said: str) -> None:
    shown = without_a_cluster(said, " --here")
    assert "kubectl soloist" not in shown
    assert shown.count(" --here") == said.count("kubectl soloist") + said.count("kubectl describe sj")


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
