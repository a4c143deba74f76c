"""compose.yaml against the command line that it starts, since the two are written apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
import yaml

from soloist.adapters.files.secret_folder import variable
from soloist.domain.actions import KeyRef
from soloist.domain.places import fits, without_a_cluster
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.spec import Invalid, parse_spec
from soloist.shells.cli import cli
from soloist.shells.main import LONG_RUNNING
from soloist.shells.standalone_settings import load
from soloist.shells.variables import unknown

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("${SOLOIST_IMAGE")}
BACKENDS = {name: service for name, service in SERVICES.items() if service["image"].startswith("${BACKEND_IMAGE")}
SECONDS = re.compile(r"(\d+)s")


def filled(text: str) -> str:
    """With the defaults of its variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def environment(service: dict[str, Any]) -> dict[str, str]:
    return {name: filled(value) for name, value in service["environment"].items()}


def jobs() -> list[dict[str, Any]]:
    """What is run as it comes."""
    host = filled(OURS["soloist"]["volumes"][0]).split(":")[0]
    return [each for file in (ROOT / host).glob("*.yaml") for each in yaml.safe_load_all(file.read_text())]


def requests(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those that lead to an address of the manifest's own."""
    http = spec.get("http") or spec["deliver"]["http"]
    if "url" in http:
        yield http


@pytest.mark.parametrize("name", OURS)
def test_each_command_is_one_that_there_is_with_flags_that_it_has(name: str) -> None:
    word, *flags = OURS[name]["command"]
    command = cli.commands[word]
    context = command.make_context(word, list(flags), parent=click.Context(cli))
    assert context.command.name == word
    assert unknown(environment(OURS[name])) == []


def test_the_replicas_settings_are_accepted_and_their_probe_is_served() -> None:
    service = OURS["soloist"]
    settings = load({"files": service["command"][2:]}, environment(service))
    assert service["command"][0] in LONG_RUNNING
    assert service["deploy"]["replicas"] == 2
    assert f"http://127.0.0.1:{settings.health_port}/readyz" in service["healthcheck"]["test"][-1]
    assert settings.health_address == "127.0.0.1"
    found = SECONDS.fullmatch(service["stop_grace_period"])
    assert found is not None
    assert int(found[1]) > settings.grace, "nothing is killed that may still end"


def test_the_account_of_the_database_is_not_called_as_our_schema_into_which_all_that_it_makes_would_go() -> None:
    account = SERVICES["postgres"]["environment"]["POSTGRES_USER"]
    assert account not in ("", "soloist")
    addresses = [OURS["soloist"]["environment"]["SOLOIST_DATABASE"], BACKENDS["backend"]["environment"]["DATABASE_URL"]]
    assert [urlsplit(filled(each)).username for each in addresses] == [account] * 2
    assert SERVICES["tables"]["environment"]["PGUSER"] == account


def test_nobody_starts_before_what_it_needs_is_there() -> None:
    assert "healthcheck" in SERVICES["postgres"]
    assert OURS["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert OURS["soloist"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert OURS["migrate"]["environment"]["SOLOIST_DATABASE"] == OURS["soloist"]["environment"]["SOLOIST_DATABASE"]


def test_the_folder_that_is_mounted_is_the_one_that_is_read_and_holds_what_can_be_used() -> None:
    _, inside, mode = filled(OURS["soloist"]["volumes"][0]).split(":")
    assert (inside, mode) == (OURS["soloist"]["command"][2], "ro")
    assert {each["kind"] for each in jobs()} == {"ScheduledJob", "WorkQueue"}
    for each in jobs():
        spec = each["spec"]
        read = fits(parse_spec(spec), without_a_cluster(commands=False)) if each["kind"] == "ScheduledJob" else parse_queue(spec)  # fmt: skip
        assert not isinstance(read, Invalid), read


def test_the_backends_are_one_image_and_what_soloist_asks_for_goes_to_the_one_that_people_do_not_ask() -> None:
    assert set(BACKENDS) == {"backend", "backend-jobs"}
    people, asked = BACKENDS["backend"], BACKENDS["backend-jobs"]
    assert {name for name in people | asked if people.get(name) != asked.get(name)} == {"ports", "cpu_shares"}
    assert people["environment"]["OWN_DRAINS"] == "off"
    asks = [http for each in jobs() for http in requests(each["spec"])]
    assert {urlsplit(http["url"]).netloc for http in asks} == {"backend-jobs:8000"}
    assert people["ports"] == ["127.0.0.1:${BACKEND_PORT:-8000}:8000"]


def test_the_backends_let_in_the_header_that_soloist_sends() -> None:
    headers = [header for each in jobs() for http in requests(each["spec"]) for header in http["headers"]]
    (key,) = {KeyRef(kind="Secret", **header["valueFrom"]["secretKeyRef"]) for header in headers}
    token = filled(BACKENDS["backend-jobs"]["environment"]["BACKEND_TOKEN"])
    assert environment(OURS["soloist"])[variable(key)] == f"Bearer {token}"


def test_what_the_backends_are_built_from_and_what_makes_their_tables_is_there() -> None:
    folder = ROOT / BACKENDS["backend"]["build"]
    recipe = (folder / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", recipe, re.MULTILINE) for name in line.split()]
    assert {"server.js", "package-lock.json"} <= set(copied)
    assert [name for name in copied if not (folder / name).exists()] == []
    (mount,) = SERVICES["tables"]["volumes"]
    host, inside, _ = mount.split(":")
    assert (ROOT / host).parent == folder
    assert SERVICES["tables"]["command"][-1] == inside
    assert BACKENDS["backend"]["depends_on"]["tables"]["condition"] == "service_completed_successfully"
    assert OURS["soloist"]["depends_on"]["backend-jobs"]["condition"] == "service_healthy"


def test_what_has_to_last_is_on_a_volume() -> None:
    assert SERVICES["postgres"]["volumes"] == ["postgres:/var/lib/postgresql/data"]
