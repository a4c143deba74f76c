"""The command line without a cluster: what it takes, what it refuses and with which sentence and exit code."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from click.testing import CliRunner, Result

from soloist.adapters.kube.answers import refusal_or_transient
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.runs import Phase
from soloist.domain.wall_time import Asked, Unreadable, read_time, span
from soloist.shells.cli import cli
from soloist.shells.cli_options import controller_settings
from soloist.shells.cli_pause import annotation
from soloist.shells.cli_reading import Leases
from soloist.shells.cli_target import INSTALL_CRDS, Target, context_namespace, sentence
from soloist.shells.cli_trigger import exit_code, manual_run
from tests.domain.why_world import at, entry, job, lease

NOW = at("12:00:30")
BERLIN = ZoneInfo("Europe/Berlin")
BACKGROUND = datetime(2026, 10, 25, 12, tzinfo=UTC)


def invoke(*arguments: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(cli, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["pause"], "Name one JOB, or write --all", id="pause of nothing"),
        pytest.param(["resume", "a", "--all"], "Name one JOB, or write --all", id="resume of one and all"),
        pytest.param(["preview"], "Write a SCHEDULE such as", id="preview of nothing"),
        pytest.param(["preview", "@daily", "-c", "0"], "0 is not in the range", id="no times"),
        pytest.param(
            ["preview", "@daily", "--from", "soon"], '"soon" is not a time: write a time such as', id="no time"
        ),
        pytest.param(["runs"], "Missing argument 'JOB'", id="no job"),
        pytest.param(["controller", "--health-port", "x"], "write a whole number", id="a setting that is no number"),
        pytest.param(["controller", "--record-ahead", "9"], "record-ahead is 9.0 s", id="a setting against another"),
        pytest.param(["nonsense"], "No such command", id="no command"),
    ],
)
def test_a_wrong_command_line_ends_with_a_sentence_and_exit_code_2(arguments: list[str], says: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert says in result.output


def test_the_controllers_flags_become_its_settings() -> None:
    flags = {"lease_name": "other", "lease_namespace": "there", "namespaces": ("a", "b"), "events": False, "grace": "5"}
    settings = controller_settings(flags)
    assert (settings.lease_name, settings.lease_namespace) == ("other", "there")
    assert (settings.namespaces, settings.events, settings.grace) == (("a", "b"), False, 5.0)


def test_every_setting_with_a_flag_is_an_option_of_the_controller() -> None:
    [command] = [cli.commands["controller"]]
    names = {option for parameter in command.params for option in parameter.opts}
    assert {"--lease-name", "--namespace", "--http-allow", "--events", "--log-format"} <= names
    assert "--crash-at" not in names


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_preview_can_be_read_by_programs(output: str) -> None:
    result = invoke(
        "preview", "0 2 * * *", "--zone", "Europe/Berlin", "--from", "2026-10-25T00:00:00Z", "-c", "2", "-o", output
    )
    document = json.loads(result.output) if output == "json" else yaml.safe_load(result.output)
    [schedule] = document["schedules"]
    assert schedule["times"][0] == {"utc": "2026-10-26T01:00:00Z", "local": "2026-10-26T02:00:00+01:00"}


def test_a_preview_takes_every_scheduled_job_of_a_manifest_and_of_stdin() -> None:
    manifest = yaml.safe_dump_all([_manifest("a"), {"kind": "Secret"}, {"kind": "List", "items": [_manifest("b")]}])
    result = invoke("preview", "-f", "-", "-c", "1", stdin=manifest)
    assert result.exit_code == 0
    assert [line.split(":")[0] for line in result.output.splitlines() if "At the start" in line] == ["a", "b"]


def _manifest(name: str, **spec: object) -> dict[str, object]:
    whole = {"schedule": "@hourly", "http": {"url": "http://backend/run"}, **spec}
    return {"kind": "ScheduledJob", "metadata": {"name": name}, "spec": whole}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param("a: [", "is not YAML", id="not YAML"),
        pytest.param("kind: Secret", "There is no ScheduledJob in FILE, but Secret.", id="another kind"),
        pytest.param("", "There is no ScheduledJob in FILE, but nothing.", id="empty"),
        pytest.param(yaml.safe_dump(_manifest("a", timeZone="Mars")), 'a: spec.timeZone "Mars" is not an IANA zone', id="a zone"),
        pytest.param("kind: ScheduledJob\nspec: [1]", "without a name: spec", id="a spec that is a list"),
        pytest.param("kind: ScheduledJob\nmetadata: 1", "without a name: spec", id="metadata that is a number"),
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be_previewed_is_a_sentence(content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(content)
    result = invoke("preview", "-f", str(file))
    assert result.exit_code == 1
    assert says in result.output.replace(str(file), "FILE")


def test_a_suspended_manifest_is_previewed_with_a_note() -> None:
    result = invoke("preview", "-f", "-", stdin=yaml.safe_dump(_manifest("a", suspend=True)))
    assert "Note: spec.suspend is true" in result.output


@pytest.mark.parametrize(
    "command", [["status"], ["runs", "a"], ["why", "a"], ["trigger", "a"], ["pause", "a"], ["resume", "--all"]]
)
def test_no_way_to_a_cluster_is_a_sentence(command: list[str], tmp_path: Path) -> None:
    result = invoke(*command, "--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert "Set KUBECONFIG or --kubeconfig" in result.output


def test_a_kubeconfig_that_is_not_yaml_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("a: [")
    result = invoke("status", "--kubeconfig", str(tmp_path / "bad"))
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")


FORBIDDEN = (
    'scheduledjobs.soloist.dev is forbidden: User "eve" cannot list resource "scheduledjobs" in API group "soloist.dev"'
)


@pytest.mark.parametrize(
    ("status", "said", "sentence_is"),
    [
        pytest.param(403, f'{FORBIDDEN} in the namespace "a"', 'User "eve" may not list scheduledjobs.soloist.dev in namespace a: ask for a Role there with the rule {apiGroups: [soloist.dev], resources: [scheduledjobs], verbs: [list]}.', id="403 in a namespace"),
        pytest.param(403, f"{FORBIDDEN} at the cluster scope", 'User "eve" may not list scheduledjobs.soloist.dev in all namespaces: ask for a ClusterRole with the rule {apiGroups: [soloist.dev], resources: [scheduledjobs], verbs: [list]}.', id="403 everywhere"),
        pytest.param(403, "a webhook says no", "GET /apis/soloist.dev/v1alpha1/x: the API server answered 403: a webhook says no", id="403 of a webhook"),
        pytest.param(404, "404 page not found", INSTALL_CRDS, id="404 of the kind"),
    ],
)  # fmt: skip
def test_what_the_api_server_refuses_says_what_to_do(status: int, said: str, sentence_is: str) -> None:
    refusal = refusal_or_transient(
        "GET /apis/soloist.dev/v1alpha1/x", status, json.dumps({"message": said}).encode(), {}
    )
    assert sentence(refusal) == sentence_is


def test_a_cluster_that_knows_jobs_and_no_queues_says_which_it_lacks() -> None:
    refusal = refusal_or_transient("GET /apis/soloist.dev/v1alpha1/workqueues", 404, b"404 page not found", {})
    assert sentence(refusal).startswith(
        "This cluster does not know WorkQueues (soloist.dev/v1alpha1). Install the CRDs"
    )


def test_what_may_be_better_later_says_that_nothing_is_known_to_have_changed() -> None:
    assert sentence(TransientError("no answer")).endswith("try again, or choose another --context.")
    assert sentence(PermanentError("It is so.")) == "It is so."


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        (phase, {Phase.SUCCEEDED: 0, Phase.UNKNOWN: 3, Phase.INTERRUPTED: 3}.get(phase, 1))
        for phase in Phase
        if phase.final
    ],
)
def test_the_end_of_a_run_is_an_exit_code(phase: Phase, code: int) -> None:
    assert exit_code(phase) == code


def test_a_triggered_run_belongs_to_its_job_and_carries_no_action() -> None:
    body = manual_run(job(), "nonce")
    [owner] = body["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("uid-of-report", True)
    assert body["spec"] == {"scheduledJobName": "report", "scheduledJobUID": "uid-of-report", "trigger": "Manual"}
    assert body["metadata"]["name"] != manual_run(job(), "another")["metadata"]["name"]


def test_a_pause_can_never_be_read_as_none() -> None:
    assert annotation("") == "true"
    assert annotation("false") == "true: false"


def test_of_several_installations_the_one_that_recorded_the_jobs_runs_is_its_own() -> None:
    other = lease(NOW, renewed=0.1)
    other.raw["metadata"]["name"] = "other"
    both = Leases(found=(lease(NOW), other))
    assert both.of(job()) is other
    recorded = both.of(job(active=[entry(at("12:00"))]))
    assert recorded is not None
    assert recorded.raw["metadata"]["name"] == "soloist"


def _kubeconfig(path: Path, **contexts: str) -> str:
    found = [{"name": name, "context": {"namespace": namespace}} for name, namespace in contexts.items()]
    path.write_text(yaml.safe_dump({"current-context": next(iter(contexts)), "contexts": found}))
    return str(path)


def test_the_namespace_is_that_of_the_flag_else_of_the_context_else_default(tmp_path: Path) -> None:
    file = _kubeconfig(tmp_path / "config", one="a", two="b")
    assert Target.of(kubeconfig=file, context="", namespace="").namespace == "a"
    assert Target.of(kubeconfig=file, context="two", namespace="").namespace == "b"
    assert Target.of(kubeconfig=file, context="two", namespace="c").namespace == "c"
    assert Target.of(kubeconfig=str(tmp_path / "none"), context="", namespace="").namespace == "default"


def test_several_kubeconfigs_are_read_as_kubectl_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _kubeconfig(tmp_path / "1", one="a"), _kubeconfig(tmp_path / "2", two="b")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{first}:{second}")
    assert context_namespace("", "") == "a"
    assert context_namespace("", "two") == "b"


@pytest.mark.parametrize(
    ("text", "instants"),
    [
        pytest.param("2026-10-25T00:30:00Z", ["2026-10-25T00:30"], id="RFC 3339"),
        pytest.param("2026-10-25T02:30:00+02:00", ["2026-10-25T00:30"], id="an offset"),
        pytest.param("2026-10-24 02:30", ["2026-10-24T00:30"], id="in the zone"),
        pytest.param("2026-10-25 02:30", ["2026-10-25T00:30", "2026-10-25T01:30"], id="twice"),
        pytest.param("2026-03-29 02:30", ["2026-03-29T01:00"], id="never"),
        pytest.param("13:00", ["2026-10-25T12:00"], id="today"),
        pytest.param("13:01", ["2026-10-24T11:01"], id="yesterday, since today's is ahead"),
        pytest.param("now", ["2026-10-25T12:00"], id="now"),
    ],
)
def test_a_time_is_read_as_people_write_it(text: str, instants: list[str]) -> None:
    asked = read_time(text, BERLIN, BACKGROUND)
    assert isinstance(asked, Asked)
    assert [f"{instant:%Y-%m-%dT%H:%M}" for instant in asked.instants] == instants
    assert bool(asked.note) == (len(instants) > 1 or "03-29" in text)


@pytest.mark.parametrize(
    "text", ["", "25:00", "tomorrow", "2026-13-01", "0001-01-01", "9999-12-31 23:59", "1e9", "24:60:61"]
)
def test_what_is_no_time_says_what_to_write(text: str) -> None:
    asked = read_time(text, BERLIN, BACKGROUND)
    assert isinstance(asked, Unreadable)
    assert 'write a time such as 13:00, "2026-10-25 13:00" (both in Europe/Berlin)' in asked.message


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "40ms"), (2.5, "2.5s"), (3, "3s"), (90, "90s"), (320, "5m20s"), (660, "11m"), (11400, "3h10m"), (93600, "26h"), (349200, "4d1h"), (1e6, "11d")],
)  # fmt: skip
def test_a_span_is_as_short_as_kubectl_writes_it(seconds: float, text: str) -> None:
    assert span(datetime.fromtimestamp(seconds, UTC) - datetime.fromtimestamp(0, UTC)) == text


def test_a_preview_does_not_wait_for_the_libraries_that_speak_to_a_cluster() -> None:
    program = (
        "import sys; from soloist.shells.cli import cli; cli.main(['preview', '@daily'], standalone_mode=False);"
        "sys.exit(' '.join({'aiohttp', 'kubernetes', 'kopf'} & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
