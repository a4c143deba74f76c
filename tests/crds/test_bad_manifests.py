"""Each bad manifest is refused where it should be, in the words of the table, by the real API server and by the program."""

import json
from typing import Any

import pytest

from soloist.domain.queue_parsing import parse_queue
from soloist.domain.spec import Invalid, parse_spec
from tests.cluster.client import MERGE, ApiClient
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.crds.bad_rows import manifest, rows
from tests.crds.schema import KINDS, root, walk

ROWS = rows()
PLURALS = {"ScheduledJob": "scheduledjobs", "JobRun": "jobruns", "WorkQueue": "workqueues"}
PARSERS = {"ScheduledJob": parse_spec, "WorkQueue": parse_queue}
UNCHECKED = "some validation rules were not checked"


def named(row: dict[str, Any]) -> str:
    return str(row["name"])


def test_the_table_has_each_row_once() -> None:
    assert len(ROWS) >= 100
    assert len({named(row) for row in ROWS}) == len(ROWS)


def test_the_table_has_every_rule_of_the_schema() -> None:
    refusals = [refusal for row in ROWS for refusal in row.get("refused", ())]
    for kind in KINDS:
        for path, schema, _ in walk(root(kind), kind):
            for rule in schema.get("x-kubernetes-validations", ()):
                assert any(refusal.endswith(f": {rule['message']}") for refusal in refusals), (path, rule["rule"])


@pytest.mark.parametrize("row", [row for row in ROWS if row["kind"] in PARSERS], ids=named)
def test_the_program_says_what_to_write_instead(row: dict[str, Any]) -> None:
    refused = PARSERS[row["kind"]](manifest(row)["spec"])
    if "says" in row and row["says"] is None:
        assert not isinstance(refused, Invalid)
        return
    assert isinstance(refused, Invalid)
    if "says" in row:
        assert refused.message == row["says"]
    else:
        assert row["refused"][-1].endswith(f": {refused.message}")
    assert refused.field.startswith("spec")
    assert refused.reason.isalnum()


@pytest.mark.cluster
@pytest.mark.parametrize("row", [row for row in ROWS if row["where"] == "server"], ids=named)
def test_the_server_refuses_it_in_these_words(row: dict[str, Any], bad_namespace: Namespace) -> None:
    """korifi #2094 is a job that deletes itself."""
    path = bad_namespace.ours(PLURALS[row["kind"]])
    if "then" in row:
        bad_namespace.api.create(path, manifest(row))
        status, answer = send(bad_namespace.api, "PATCH", f"{path}/bad", {"spec": row["then"]}, MERGE)
        bad_namespace.api.delete(f"{path}/bad")
    else:
        status, answer = send(bad_namespace.api, "POST", f"{path}?fieldValidation=Strict", manifest(row))
    assert status in (400, 422)
    assert causes(answer) == row["refused"]


@pytest.mark.cluster
@pytest.mark.parametrize("row", [row for row in ROWS if row["where"] == "controller"], ids=named)
def test_the_server_leaves_it_to_the_program(row: dict[str, Any], bad_namespace: Namespace) -> None:
    path = bad_namespace.ours(PLURALS[row["kind"]])
    status, answer = send(bad_namespace.api, "POST", f"{path}?fieldValidation=Strict&dryRun=All", manifest(row))
    assert status == 201, answer
    # What the server made of it, defaults and all, is what the controller is to read.
    assert isinstance(PARSERS[row["kind"]](answer["spec"]), Invalid)


@pytest.fixture(scope="module")
def bad_namespace(control_plane: ControlPlane) -> Namespace:
    control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": "bad-manifests"}})
    return Namespace(name="bad-manifests", cluster=control_plane)


def send(api: ApiClient, method: str, path: str, body: Any, media: str = "application/json") -> tuple[int, Any]:
    status, answer = api.raw(method, path, json.dumps(body).encode(), media)
    return status, json.loads(answer)


def causes(answer: dict[str, Any]) -> list[str]:
    """What the server said is wrong, field by field; the whole message where it names no field."""
    found = answer.get("details", {}).get("causes")
    if not found:
        return [answer["message"]]
    return [f"{cause['field']}: {cause['message']}" for cause in found if UNCHECKED not in cause["message"]]
