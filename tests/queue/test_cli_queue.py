"""``soloist queue`` on a real database, the queue out of a file: what is said, what is done, and what never is."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.managed_dead import DeadItems
from soloist.adapters.postgres.mapped_opening import open_mapped
from soloist.domain.claims import Failed, Verdict
from soloist.shells import cli_queue_retry
from soloist.shells.cli import cli
from soloist.shells.cli_queue_place import in_files
from tests.cluster.free_ports import free_ports
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.postgres.server import Postgres
from tests.queue.databases import with_database
from tests.queue.mapped_world import QUEUE, made, spec_of
from tests.queue.rows import Connection, claim, enqueue, fail, items, scalar
from tests.queue.user_tables import TABLES, UserTable

SECRET = "s3cr3t-of-the-test"
MANAGED = UserTable(label="managed", ddl="", table={}, new="")
SNAKE = TABLES["snake"]
Soloist = Callable[..., Result]
STATE = """SELECT (SELECT count(*) FROM soloist.work_items), (SELECT count(*) FROM soloist.dead_items),
    (SELECT count(*) FROM soloist.dead_rows), (SELECT count(*) FROM soloist.sources), (SELECT last_value FROM soloist.fence)"""


def with_password(dsn: str) -> str:
    return dsn.replace("@", f":{SECRET}@", 1)


def manifest(user: UserTable, dsn: str, **spec: Any) -> str:
    whole = user.manifest(**spec)
    if user is MANAGED:
        del whole["table"]
    queue = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "q"}, "spec": whole}
    secret = {"kind": "Secret", "metadata": {"name": "db"}, "stringData": {"uri": with_password(dsn)}}
    return yaml.safe_dump_all([queue, secret])


@pytest.fixture
def file(tmp_path: Path, queue_database: Place) -> Callable[..., str]:
    """Writes the WorkQueue of a table, with its Secret."""

    def write(user: UserTable = MANAGED, dsn: str = "", **spec: Any) -> str:
        path = tmp_path / "queue.yaml"
        path.write_text(manifest(user, dsn or queue_database.dsn(), **spec))
        assert SECRET in path.read_text(), "there is something that must not be shown"
        return str(path)

    return write


@pytest.fixture
def soloist(monkeypatch: pytest.MonkeyPatch) -> Soloist:
    """`soloist("dead", "q", "-f", file)`; no password is ever in what it prints."""
    monkeypatch.delenv("SOLOIST_DATABASE", raising=False)

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(cli, ["queue", *arguments], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert SECRET not in result.output
        assert "Traceback" not in result.output
        return result

    return invoke


@pytest.fixture
def role(queue_database: Place, connection: Connection) -> Iterator[str]:
    """One that owns nothing."""
    name = queue_database.server.role("cli_worker")
    yield name
    connection.execute(f"DROP SCHEMA IF EXISTS app CASCADE; DROP OWNED BY {name}")


def die(place: Place, user: UserTable, count: int, error: str = "HTTP 410") -> list[int]:
    """Letters of the queue, by their ids, as a worker leaves them: one after the other, so that their order is known."""
    with place.connect() as connection:
        if user is MANAGED:
            ids = []
            for _ in range(count):
                ids += enqueue(connection, queue=QUEUE)
                fail(connection, claim(connection, queue=QUEUE), None, error)
            return ids
        connection.execute(user.new.format(due="now()", count=count))

    async def body(database: Database) -> None:
        rows = await open_mapped(database, QUEUE, spec_of(user), worker="w", boottime=time.monotonic)
        for _ in range(count):
            (claimed,) = await rows.claim(1)
            assert await rows.settle([Failed(claim=claimed, error=error, retry_in=None)]) == [Verdict.ACCEPTED]

    with_database(place.dsn(), body)
    with place.connect() as connection:
        return letters(connection, user)[-count:]


@pytest.fixture(params=[MANAGED, SNAKE], ids=lambda user: user.label)
def user(request: pytest.FixtureRequest, connection: Connection) -> UserTable:
    if request.param is not MANAGED:
        made(connection, request.param)
    return request.param  # type: ignore[no-any-return]


def letters(connection: Connection, user: UserTable) -> list[int]:
    return [row["id"] for row in items(connection, "dead_items" if user is MANAGED else "dead_rows")]


def due(connection: Connection, user: UserTable) -> int:
    """How many rows a worker could have now."""
    if user is MANAGED:
        return len(items(connection))
    return int(scalar(connection, "SELECT count(*) FROM app.deliveries WHERE state = 'new' AND next_try <= now()"))


# check


def test_a_queue_that_can_be_worked_is_fine_and_a_check_leaves_no_trace(
    soloist: Soloist, file: Callable[..., str], connection: Connection, queue_database: Place, user: UserTable
) -> None:
    before = connection.execute(STATE).fetchone()
    result = soloist("check", "q", "-f", file(user))
    assert result.exit_code == 0, result.output
    table = "soloist.work_items" if user is MANAGED else "app.deliveries"
    first = f"default/q: {table} in the database {queue_database.name} at 127.0.0.1."
    assert (result.output.splitlines()[0], result.output.splitlines()[-1]) == (first, "Nothing stops the queue.")
    assert connection.execute(STATE).fetchone() == before


def test_what_is_missing_is_said_with_the_statement_that_mends_it(
    soloist: Soloist,
    file: Callable[..., str],
    connection: Connection,
    queue_database: Place,
    role: str,
    user: UserTable,
) -> None:
    connection.execute(f"GRANT USAGE ON SCHEMA soloist TO {role}")
    if user is not MANAGED:
        connection.execute(f"GRANT USAGE ON SCHEMA app TO {role}")
    asked = ["check", "q", "-f", file(user, queue_database.dsn(role))]
    remedies = ("Grants: ", "SchemaRights: ") if user is not MANAGED else ("SchemaRights: ",)
    for remedy in remedies:
        result = soloist(*asked)
        assert result.exit_code == 1
        assert "The queue is not worked until the errors are mended." in result.output
        (line,) = [each for each in result.output.splitlines() if remedy in each]
        connection.execute(line[max(line.rfind("GRANT "), line.rfind("SELECT soloist.")) :])
    result = soloist(*asked)
    assert result.exit_code == 0, result.output


def test_the_right_to_draw_a_fence_is_asked_for(
    soloist: Soloist, file: Callable[..., str], connection: Connection, queue_database: Place, role: str
) -> None:
    connection.execute(f"SELECT soloist.allow_work('{role}'); REVOKE ALL ON SEQUENCE soloist.fence FROM {role}")
    result = soloist("check", "q", "-f", file(MANAGED, queue_database.dsn(role)))
    assert result.exit_code == 1
    assert f"The role {role} lacks UPDATE ON soloist.fence." in result.output


def test_without_any_right_on_the_schema_there_is_one_sentence(
    soloist: Soloist, file: Callable[..., str], queue_database: Place, role: str
) -> None:
    result = soloist("check", "q", "-f", file(MANAGED, queue_database.dsn(role)))
    assert result.exit_code == 1
    assert "ERRORS (1)" in result.output
    assert f"soloist.allow_work('{role}')" in result.output


def test_a_warning_stops_nothing(soloist: Soloist, file: Callable[..., str], connection: Connection) -> None:
    made(connection, SNAKE)
    connection.execute("DROP INDEX app.deliveries_due, app.deliveries_again, app.deliveries_running")
    result = soloist("check", "q", "-f", file(SNAKE), "-o", "json")
    document = json.loads(result.output)
    assert (result.exit_code, document["stopped"]) == (0, False)
    (warning,) = [each for each in document["findings"] if each["severity"] == "Warning"]
    assert warning["reason"] == "DueIndexMissing"


def test_a_schema_that_is_missing_old_or_new_says_what_to_run(
    soloist: Soloist, file: Callable[..., str], own_queue_database: Place, postgres: Postgres
) -> None:
    empty = postgres.create_database("q_without_schema")
    result = soloist("check", "q", "-f", file(MANAGED, empty.dsn()))
    assert result.exit_code == 1
    assert "ERRORS (1)" in result.output
    assert "the schema soloist is not there: run soloist migrate on it." in result.output
    with own_queue_database.connect() as connection:
        connection.execute("DELETE FROM soloist.migrations WHERE version > 8")
        result = soloist("check", "q", "-f", file(MANAGED, own_queue_database.dsn()))
        assert "is at version 8, and this program needs" in result.output
        connection.execute("INSERT INTO soloist.migrations (version, name, checksum) VALUES (999, 'x', 'y')")
    result = soloist("check", "q", "-f", file(MANAGED, own_queue_database.dsn()))
    assert result.exit_code == 1
    assert "run a release of Soloist that is as new" in result.output


def test_a_pooler_is_seen(
    soloist: Soloist, file: Callable[..., str], queue_database: Place, pgbouncer: PgBouncer
) -> None:
    result = soloist("check", "q", "-f", file(MANAGED, pgbouncer.dsn(queue_database.name)))
    assert result.exit_code == 0, result.output
    assert "NOTES (1)\n  Pooler: A connection pooler is in front of the database." in result.output


def test_a_spec_that_cannot_be_used_is_a_finding_and_no_database_is_asked(
    soloist: Soloist, file: Callable[..., str]
) -> None:
    result = soloist("check", "q", "-f", file(MANAGED, leaseSeconds=1))
    assert result.exit_code == 1
    assert "no database was asked" in result.output
    assert "FieldInvalid: spec.leaseSeconds" in result.output


def test_a_database_that_is_away_is_a_sentence_without_its_password(soloist: Soloist, file: Callable[..., str]) -> None:
    [port] = free_ports(1)
    for command in (["check", "q"], ["dead", "q"], ["retry", "q", "--all"], ["purge", "q", "--all"]):
        result = soloist(*command, "-f", file(MANAGED, f"postgresql://me@127.0.0.1:{port}/x"))
        assert result.exit_code == 1
        assert "The database x at 127.0.0.1 cannot be reached" in result.output
        assert "forward a port, and write --database" in result.output


def test_a_url_that_cannot_be_read_does_not_show_itself(soloist: Soloist, file: Callable[..., str]) -> None:
    result = soloist("dead", "q", "-f", file(MANAGED, "mysql://me@127.0.0.1/x"))
    assert result.exit_code == 1
    assert "mysql://, which is not PostgreSQL's" in result.output


def test_the_database_of_the_command_line_goes_before_the_secret(
    soloist: Soloist, file: Callable[..., str], queue_database: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    [port] = free_ports(1)
    path = file(MANAGED, f"postgresql://me@127.0.0.1:{port}/x")
    assert soloist("check", "q", "-f", path, "--database", with_password(queue_database.dsn())).exit_code == 0
    monkeypatch.setenv("SOLOIST_DATABASE", with_password(queue_database.dsn()))
    assert soloist("check", "q", "-f", path).exit_code == 0


# dead, retry, purge


def test_dead_letters_are_shown_with_their_last_error_page_by_page(
    soloist: Soloist, file: Callable[..., str], connection: Connection, user: UserTable, queue_database: Place
) -> None:
    ids, path = die(queue_database, user, 5, "HTTP 500:\n out of \x1b[2Jpaper"), file(user)
    seen: list[int] = []
    more: list[str] = []
    for shown in (2, 2, 1):
        page = soloist("dead", "q", "-f", path, "--limit", "2", *more).output
        rows = [line.split()[0] for line in page.splitlines() if "HTTP 500: out of �[2Jpaper" in line]
        seen += map(int, rows)
        assert len(rows) == shown
        following = re.search(r"soloist queue dead q -f \S+ --after (\S+)", page)
        more = ["--after", following[1]] if following else []
    assert (seen, more) == (ids, [])
    document = json.loads(soloist("dead", "q", "-f", path, "-o", "json").output)
    assert [letter["lastError"] for letter in document["letters"]] == ["HTTP 500:\n out of \x1b[2Jpaper"] * 5
    assert document["after"] is None


def test_without_letters_that_is_said(soloist: Soloist, file: Callable[..., str], user: UserTable) -> None:
    assert soloist("dead", "q", "-f", file(user)).output == "There are no dead letters of default/q.\n"
    assert soloist("retry", "q", "--all", "-f", file(user)).output == "0 rows of default/q are due again.\n"
    result = soloist("purge", "q", "--all", "-f", file(user))
    assert (result.exit_code, result.output) == (0, "There are no such dead letters of default/q.\n")


def test_one_or_all_are_put_back_to_work(
    soloist: Soloist,
    file: Callable[..., str],
    connection: Connection,
    user: UserTable,
    monkeypatch: pytest.MonkeyPatch,
    queue_database: Place,
) -> None:
    monkeypatch.setattr(cli_queue_retry, "_BATCH", 2)
    ids, path = die(queue_database, user, 6), file(user, suspend=True)
    result = soloist("retry", "q", str(ids[3]), "-f", path)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "1 row of default/q is due again.",
        "spec.suspend is true: they wait until it is false.",
    ]
    assert (due(connection, user), letters(connection, user)) == (1, [each for each in ids if each != ids[3]])
    assert soloist("retry", "q", "--all", "-f", path).output.startswith("5 rows of default/q are due again.")
    assert (due(connection, user), letters(connection, user)) == (6, [])


def test_a_letter_that_is_not_there_is_named_and_the_others_go_back(
    soloist: Soloist, file: Callable[..., str], connection: Connection, user: UserTable, queue_database: Place
) -> None:
    (id_,), path = die(queue_database, user, 1), file(user)
    result = soloist("retry", "q", str(id_), "999999", "-f", path)
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "1 row of default/q is due again.",
        f"There is no such dead letter: 999999. Those that there are: soloist queue dead q -f {path}",
    ]
    assert soloist("purge", "q", str(id_), "--yes", "-f", path).exit_code == 1


def test_a_row_whose_unique_key_is_in_use_again_stays_dead(
    soloist: Soloist, file: Callable[..., str], connection: Connection
) -> None:
    enqueue(connection, queue=QUEUE, unique_key="k")
    (row,) = claim(connection, queue=QUEUE)
    fail(connection, [row], None)
    enqueue(connection, queue=QUEUE, unique_key="k")
    result = soloist("retry", "q", "--all", "-f", file())
    assert result.exit_code == 1
    assert f"Not these: {row.id}. A row with the same unique_key is in the queue by now" in result.output
    assert letters(connection, MANAGED) == [row.id]


def test_rows_that_stay_dead_keep_no_other_from_going_back(
    soloist: Soloist,
    file: Callable[..., str],
    connection: Connection,
    queue_database: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli_queue_retry, "_BATCH", 2)
    ids = die(queue_database, MANAGED, 5)
    connection.execute("UPDATE soloist.dead_items SET unique_key = id::text WHERE id = ANY(%s)", (ids[:3],))
    for id_ in ids[:3]:
        enqueue(connection, queue=QUEUE, unique_key=str(id_))
    result = soloist("retry", "q", "--all", "-f", file())
    assert result.output.startswith("2 rows of default/q are due again.\nNot these: ")
    assert letters(connection, MANAGED) == ids[:3]


def test_rows_that_die_again_at_once_do_not_keep_a_retry_of_all_going(
    connection: Connection, queue_database: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_queue_retry, "_BATCH", 2)
    ids = die(queue_database, MANAGED, 5)
    tried: list[int] = []

    class DyingAgain(DeadItems):
        async def retry(self, ids: Sequence[int]) -> dict[int, bool]:
            tried.extend(ids)
            assert len(tried) < 20
            back = await super().retry(ids)
            fail(connection, claim(connection, n=len(ids), queue=QUEUE), None)
            return back

    done = with_database(queue_database.dsn(), lambda database: cli_queue_retry.retry_all(DyingAgain(database, QUEUE)))
    assert (tried, sorted(done)) == (ids, ids)
    assert letters(connection, MANAGED) == ids


def test_a_row_that_the_application_moved_on_is_left_alone(
    soloist: Soloist, file: Callable[..., str], connection: Connection, queue_database: Place
) -> None:
    made(connection, SNAKE)
    (id_,) = die(queue_database, SNAKE, 1)
    connection.execute("UPDATE app.deliveries SET state = 'done'")
    result = soloist("retry", "q", str(id_), "-f", file(SNAKE))
    assert result.exit_code == 1
    assert f"Not these: {id_}. The application has changed or deleted the row since" in result.output
    assert scalar(connection, "SELECT state FROM app.deliveries") == "done"


def test_letters_of_a_table_that_is_gone_are_still_shown_and_put_away(
    soloist: Soloist, file: Callable[..., str], connection: Connection, queue_database: Place
) -> None:
    made(connection, SNAKE)
    die(queue_database, SNAKE, 1)
    connection.execute("DROP TABLE app.deliveries")
    assert "HTTP 410" in soloist("dead", "q", "-f", file(SNAKE)).output
    result = soloist("retry", "q", "--all", "-f", file(SNAKE))
    assert result.exit_code == 1
    assert "there is no table app.deliveries" in result.output
    assert soloist("purge", "q", "--all", "--yes", "-f", file(SNAKE)).output == "1 dead letter of default/q deleted.\n"


@pytest.mark.parametrize("which", ["ids", "older", "all"])
def test_nothing_is_destroyed_before_somebody_says_yes(
    which: str,
    soloist: Soloist,
    file: Callable[..., str],
    connection: Connection,
    user: UserTable,
    queue_database: Place,
) -> None:
    ids, path = die(queue_database, user, 3), file(user)
    name = "dead_items" if user is MANAGED else "dead_rows"
    connection.execute(f"UPDATE soloist.{name} SET died_at = now() - interval '31 days' WHERE id = %s", ids[:1])
    words = {"ids": [str(ids[0])], "older": ["--older-than", "30d"], "all": ["--all"]}[which]
    for answer in ("n\n", "", None):
        result = soloist("purge", "q", *words, "-f", path, stdin=answer)
        assert result.exit_code == 1
        assert letters(connection, user) == ids
    count = "3 dead letters" if which == "all" else "1 dead letter"
    assert (
        f"This deletes {count} of default/q in the database {queue_database.name} at 127.0.0.1, for good."
        in result.output
    )
    kept = "payload and all" if user is MANAGED else "The rows of app.deliveries stay as they are."
    assert kept in result.output
    result = soloist("purge", "q", *words, "-f", path, stdin="y\n")
    assert result.exit_code == 0, result.output
    assert f"{count} of default/q deleted." in result.output
    assert letters(connection, user) == ([] if which == "all" else ids[1:])


def test_a_row_that_dies_while_the_question_is_open_is_not_destroyed(
    file: Callable[..., str], connection: Connection, user: UserTable, queue_database: Place
) -> None:
    die(queue_database, user, 2)
    place, later = in_files([file(user)], "", "q", ""), list[int]()

    def agreed(question: str) -> bool:
        assert "2 dead letters" in question
        later.extend(die(queue_database, user, 1))
        return True

    lines, code = cli_queue_retry.purge(place, timedelta(), agreed=agreed)
    assert (lines, code) == (["2 dead letters of default/q deleted."], 0)
    assert letters(connection, user) == later
