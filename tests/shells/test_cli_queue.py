"""``soloist queue`` without a cluster and a database: what it takes, what it refuses, and with which sentence."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from soloist.domain.dead_letter import FIRST
from soloist.shells.cli import cli
from soloist.shells.cli_queue import age
from soloist.shells.cli_queue_check import page as check_page
from soloist.shells.cli_queue_dead import page as dead_page
from soloist.shells.cli_queue_dead import read_place
from soloist.shells.cli_queue_list import overview
from soloist.shells.cli_text import WrongWords
from tests.shells.queue_world import SPEC, letter, place, queue

HEAD = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue"}

NOON = datetime(2026, 10, 15, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOLOIST_DATABASE", raising=False)


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["queue", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["check"], "Missing argument 'NAME'", id="a check of nothing"),
        pytest.param(["retry", "q"], "Name the IDs of dead letters", id="a retry of none"),
        pytest.param(["retry", "q", "1", "--all"], "Name the IDs of dead letters", id="a retry of one and all"),
        pytest.param(["retry", "q", "one"], "is not a valid integer", id="an id that is no number"),
        pytest.param(["retry", "q", str(2**63)], "is not in the range", id="an id that no row can have"),
        pytest.param(["purge", "q"], "Write which: IDs of dead letters", id="a purge of none"),
        pytest.param(["purge", "q", "--all", "--older-than", "1d"], "Write which: IDs", id="a purge of all and some"),
        pytest.param(["purge", "q", "1", "--older-than", "1d"], "Write which: IDs", id="a purge of one and some"),
        pytest.param(["purge", "q", "--older-than", "soon"], '--older-than "soon" is not an age', id="no age"),
        pytest.param(["purge", "q", "--older-than", ""], '--older-than "" is not an age', id="an empty age"),
        pytest.param(["dead", "q", "--limit", "0"], "0 is not in the range", id="no letters"),
        pytest.param(["dead", "q", "--after", "7"], '--after "7" is not a place in the list', id="no place"),
    ],
)
def test_a_wrong_command_line_ends_with_a_sentence_and_exit_code_2(arguments: list[str], says: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert says in result.output


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 2592000), ("12h30m", 45000), ("1s", 1), (" 2m ", 120), ("36500d", 3153600000)]
)
def test_an_age_is_read_as_people_write_it(text: str, seconds: int) -> None:
    assert age(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "30", "d", "1w", "-1d", "1.5h", "0s", "36501d", "999999999999d", "30d ago"])
def test_what_is_no_age_or_beyond_any_is_refused(text: str) -> None:
    with pytest.raises(WrongWords):
        age(text)


def test_a_place_in_the_list_is_read_as_a_page_writes_it() -> None:
    died_at = NOON + timedelta(microseconds=1)
    document, lines = dead_page(place("q"), [letter(42, died_at)], now=NOON, more=True, mapped=False)
    assert read_place(document["after"]) == (died_at, 42)
    assert lines[-1].endswith(f"--after {document['after']}")
    assert read_place(None) == FIRST


@pytest.mark.parametrize(
    "text", ["", "42", ",42", "2026-10-15T12:00:00Z", "2026-10-15T12:00:00,42", "2026-10-15T12:00:00Z,x", "2026-10-15T12:00:00Z,-1", f"2026-10-15T12:00:00Z,{2**63}", "0001-01-01T00:00:00Z,1"]
)  # fmt: skip
def test_what_is_no_place_in_the_list_is_refused(text: str) -> None:
    with pytest.raises(WrongWords):
        read_place(text)


def _manifest(name: str = "q", namespace: str | None = None, secret: bool = True) -> str:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    made = [{**HEAD, "metadata": metadata, "spec": SPEC}]
    uri = {"uri": "postgresql://me:s3cr3t@127.0.0.1:1/x"}
    held = {"kind": "Secret", "metadata": {**metadata, "name": "db"}, "stringData": uri}
    return yaml.safe_dump_all([*made, *([held] if secret else [])])


@pytest.mark.parametrize(
    ("content", "more", "says"),
    [
        pytest.param(None, [], "does not exist: name a manifest", id="no file"),
        pytest.param("a: [", [], "this cannot be read as YAML", id="not YAML"),
        pytest.param("kind: Secret\nmetadata: {name: s}", [], 'There is no WorkQueue "q" in FILE. There are: none.', id="no queue"),
        pytest.param(_manifest("other"), [], 'There is no WorkQueue "q" in FILE. There are: default/other.', id="another queue"),
        pytest.param(_manifest(), ["-n", "a"], 'There is no WorkQueue "q" of namespace a in FILE. There are: default/q.', id="another namespace"),
        pytest.param(f"{_manifest()}---\n{_manifest(namespace='a')}", [], "There are several in FILE (a/q, default/q): choose one with -n.", id="two of one name"),
        pytest.param(_manifest(secret=False), [], "Secret default/db is in none of the files: add it to one, or name another. Or write --database", id="no Secret"),
        pytest.param(f"{_manifest()}---\n{_manifest(namespace='a')}", ["-n", "a"], "The database x at 127.0.0.1 cannot be reached", id="one of two"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_say_enough_is_a_sentence(
    content: str | None, more: list[str], says: str, tmp_path: Path
) -> None:
    file = tmp_path / "queue.yaml"
    if content is not None:
        file.write_text(content)
    for command in (["check", "q"], ["dead", "q"], ["retry", "q", "1"], ["purge", "q", "1", "--yes"]):
        result = invoke(*command, "-f", str(file), *more)
        assert result.exit_code == 1
        assert says in result.output.replace(str(file), "FILE")
        assert "s3cr3t" not in result.output


def test_a_queue_may_be_named_as_it_is_in_sql(tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text(f"{_manifest()}---\n{_manifest(namespace='a')}")
    for more in ([], ["-n", "a"]):
        found = invoke("check", "a/q", "-f", str(file), *more)
        assert "The database x at 127.0.0.1 cannot be reached" in found.output
    assert 'no WorkQueue "q" of namespace b' in invoke("check", "b/q", "-f", str(file)).output
    torn = invoke("check", "a/q", "-f", str(file), "-n", "b")
    assert "a/q is not in the namespace b of -n: leave one of the two out." in torn.output


@pytest.mark.parametrize("command", [["list"], ["check", "q"], ["dead", "q"], ["retry", "q", "1"], ["purge", "q", "1"]])
def test_no_way_to_a_cluster_is_a_sentence(command: list[str], tmp_path: Path) -> None:
    result = invoke(*command, "--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert "Set KUBECONFIG or --kubeconfig" in result.output


def test_letters_of_a_queue_whose_spec_cannot_be_used_are_not_guessed_at(tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text(yaml.safe_dump({**HEAD, "metadata": {"name": "q"}, "spec": {}}))
    result = invoke("dead", "q", "-f", str(file), "--database", "postgresql://127.0.0.1:1/x")
    assert result.exit_code == 1
    assert "default/q cannot be used: spec.database" in result.output


def test_a_field_that_does_not_exist_stops_the_queue_and_is_named_with_the_one_that_is_near(tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text(_manifest().replace("spec:", "spec:\n  aftercrash: Hold"))
    result = invoke("check", "q", "-f", str(file))
    assert result.exit_code == 1
    assert "FieldUnknown: spec.aftercrash is no field that is of use here: write spec.afterCrash." in result.output
    assert "The queue is not worked until the errors are mended." in result.output
    assert "spec.afterCrash" in invoke("dead", "q", "-f", str(file)).output


def test_a_queue_that_another_serves_is_stopped() -> None:
    document, _, code = check_page(place("q", served="The table is already served by a/b."), "the database x", [])
    assert (code, document["stopped"]) == (1, True)
    assert document["findings"][0]["reason"] == "AlreadyServed"


def test_a_list_can_be_read_by_programs() -> None:
    condition = {"type": "Valid", "status": "Unknown", "reason": "DatabaseUnreachable", "message": "No answer."}
    document, _ = overview(
        [queue("b", conditions=[condition], dead=1), queue("a")], NOON, where="here", everywhere=False
    )
    assert [(each["name"], each["valid"], each["dead"]) for each in document["queues"]] == [
        ("b", "Unknown", 1),
        ("a", None, None),
    ]
    assert [each["reason"] for each in document["problems"]] == ["DatabaseUnreachable", "DeadLetters"]


def test_the_other_commands_do_not_wait_for_the_libraries_of_databases() -> None:
    program = (
        "import sys; from soloist.shells.cli import cli; cli.main(['queue', 'dead', '--help'], standalone_mode=False);"
        "sys.exit(' '.join({'aiohttp', 'kubernetes', 'kopf', 'psycopg'} & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
