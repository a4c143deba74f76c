"""``soloist queue`` on a real API server and a real PostgreSQL: the way from a name to a database is the person's own."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from soloist.adapters.postgres.migrate import migrate
from soloist.shells.cli import cli
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.postgres.server import Database, Postgres

pytestmark = pytest.mark.cluster

SECRET = "s3cr3t-of-the-test"
DIE = """SELECT soloist.fail(ARRAY[id], ARRAY[fence], ARRAY['HTTP 410'], ARRAY[NULL::interval])
    FROM soloist.claim(%s, 1, '60 s', 'w')"""
Soloist = Callable[..., Result]


@pytest.fixture
def soloist(
    control_plane: ControlPlane, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Soloist:
    monkeypatch.delenv("SOLOIST_DATABASE", raising=False)

    def invoke(*arguments: str, user: str = "admin") -> Result:
        config = control_plane.kubeconfig(tmp_path / f"kc-{user}", user, namespace=namespace.name)
        result = CliRunner().invoke(cli, ["queue", *arguments, "--kubeconfig", str(config)])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.output
        assert SECRET not in result.output
        return result

    return invoke


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> Database:
    made = postgres.create_database("cli_queue")
    migrate(made.dsn())
    return made


def make_queue(namespace: Namespace, name: str = "emails", **spec: Any) -> Any:
    whole = {
        "database": {"secretName": "db", "key": "uri"},
        "deliver": {"http": {"url": "http://backend/mail"}},
        **spec,
    }
    body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": name}, "spec": whole}
    return namespace.api.create(namespace.ours("workqueues"), body)


def make_secret(namespace: Namespace, dsn: str) -> None:
    url = dsn.replace("@", f":{SECRET}@", 1)
    data = {"uri": base64.b64encode(url.encode()).decode()}
    namespace.api.create(namespace.path("secrets"), {"metadata": {"name": "db"}, "data": data})


def test_a_row_that_died_is_found_and_put_back_by_way_of_the_queues_secret(
    soloist: Soloist, namespace: Namespace, database: Database
) -> None:
    make_queue(namespace)
    make_secret(namespace, database.dsn())
    queue = f"{namespace.name}/emails"
    assert soloist("check", "emails").output == (
        f"{queue}: soloist.work_items in the database cli_queue at 127.0.0.1.\n\nNothing stops the queue.\n"
    )
    with database.connect() as connection:
        (id_,) = connection.execute("SELECT soloist.enqueue(%s, '{}')", (queue,)).fetchone() or ()
        connection.execute(DIE, (queue,))
    (letter,) = json.loads(soloist("dead", "emails", "-o", "json").output)["letters"]
    assert (letter["id"], letter["lastError"]) == (id_, "HTTP 410")
    assert soloist("retry", "emails", str(id_)).output == f"1 row of {queue} is due again.\n"
    assert soloist("dead", "emails").output == f"There are no dead letters of {queue}.\n"


def test_a_list_shows_what_the_controller_wrote(soloist: Soloist, namespace: Namespace) -> None:
    assert soloist("list").output == f"There are no WorkQueues in namespace {namespace.name}.\n"
    make_queue(namespace)
    condition = {"type": "Valid", "status": "False", "reason": "AlreadyServed", "message": "It is served by a/b.", "lastTransitionTime": "2026-10-15T12:00:00Z"}  # fmt: skip
    status = {"conditions": [condition], "ready": 3, "dead": 2, "oldestDueSeconds": 95}
    namespace.api.patch(namespace.ours("workqueues", "emails") + "/status", {"status": status})
    lines = soloist("list", "-A").output.splitlines()
    assert f"  {namespace.name}/emails: It is served by a/b." in lines
    assert f"  {namespace.name}/emails: 2 dead letters wait for a person." in lines
    (row,) = [line.split() for line in lines if line.startswith(f"{namespace.name} ")]
    assert row[1:] == ["emails", "soloist.work_items", "AlreadyServed", "3", "-", "-", "2", "95s", "-"]


@pytest.mark.parametrize("command", [["check"], ["dead"], ["retry", "--all"], ["purge", "--all"]])
def test_what_is_missing_on_the_way_is_named(command: list[str], soloist: Soloist, namespace: Namespace) -> None:
    make_queue(namespace)
    verb, *more = command
    assert 'There is no WorkQueue "email" in namespace' in soloist(verb, "email", *more).output
    assert "Did you mean emails?" in soloist(verb, "email", *more).output
    result = soloist(verb, "emails", *more)
    assert result.exit_code == 1
    assert f"Secret {namespace.name}/db does not exist" in result.output
    assert "Or write --database" in result.output


def test_whoever_may_not_read_the_secret_hears_so_and_may_name_the_database(
    soloist: Soloist, namespace: Namespace, database: Database
) -> None:
    make_queue(namespace)
    make_secret(namespace, database.dsn())
    refused = soloist("list", user="nobody")
    assert (refused.exit_code, refused.output.split(" in namespace")[0]) == (
        1,
        'Error: User "nobody" may not list workqueues.soloist.dev',
    )
    rules = [{"apiGroups": ["soloist.dev"], "resources": ["workqueues"], "verbs": ["get", "list"]}]
    roles, bindings = (namespace.path(kind, group="rbac.authorization.k8s.io") for kind in ("roles", "rolebindings"))
    namespace.api.create(roles, {"metadata": {"name": "looks"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looks"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}]
    namespace.api.create(bindings, {"metadata": {"name": "looks"}, "roleRef": reference, "subjects": subjects})
    until(lambda: soloist("list", user="nobody").exit_code == 0, what="the right is known", timeout=90)
    refused = soloist("dead", "emails", user="nobody")
    assert refused.exit_code == 1
    assert 'rule {apiGroups: [""], resources: [secrets], verbs: [get]}. Or write --database' in refused.output
    result = soloist("dead", "emails", "--database", database.dsn(), user="nobody")
    assert result.exit_code == 0, result.output
