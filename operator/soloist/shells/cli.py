"""The command line, all of it on one page: what each command is called, takes and says of itself.

The bodies are in ``cli_*`` and are imported when they are needed, so that ``--help`` and ``preview`` do not wait for the
libraries that speak to a cluster.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from soloist import __version__
from soloist.domain.errors import ConfigError
from soloist.shells.cli_migrate import migrate
from soloist.shells.cli_text import emit
from soloist.shells.settings import ControllerSettings, load, rows

if TYPE_CHECKING:
    from soloist.shells.cli_target import Target

Function = TypeVar("Function", bound=Callable[..., Any])
EXIT_CODES = (
    "Exit codes: 0 done; 1 refused, not found, or the run failed; 2 the command line is wrong; "
    "3 trigger --wait: the run ended Unknown or Interrupted; 4 trigger --wait: not over in --timeout."
)
_output = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print.",
)


def _options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_cluster = _options(
    click.option("--kubeconfig", default="", help="Kubeconfig file; default: $KUBECONFIG, then ~/.kube/config."),
    click.option("--context", default="", help="Context of the kubeconfig; default: its current one."),
    click.option("-n", "--namespace", default="", help="Namespace; default: the context's."),
    click.option("--lease-name", default="soloist", envvar="SOLOIST_LEASE_NAME", show_default=True, help="Name of the controllers' Lease."),
    click.option("--lease-namespace", default="", envvar="SOLOIST_LEASE_NAMESPACE", help="Its namespace; default: found."),
)  # fmt: skip


def _target(options: dict[str, Any], **more: Any) -> "Target":
    from soloist.shells.cli_target import Target

    names = ("kubeconfig", "context", "namespace", "lease_name", "lease_namespace")
    return Target.of(**{name: options[name] for name in names}, **more)


@click.group(epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="soloist")
def cli() -> None:
    """Every scheduled run launched once, however many replicas are up: look at it, and act on it."""


@cli.command()
@_cluster
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@_output
def status(all_namespaces: bool, output: str, **options: Any) -> None:
    """Who leads, what is wrong, and every job; problems first."""
    from soloist.shells import cli_status

    emit(output, *cli_status.status(_target(options, everywhere=all_namespaces)))


@cli.command()
@click.argument("job")
@_cluster
@_output
def runs(job: str, output: str, **options: Any) -> None:
    """The runs of JOB, newest first, and its times without a run."""
    from soloist.shells import cli_runs

    emit(output, *cli_runs.runs(_target(options), job))


@cli.command()
@click.argument("job")
@click.option(
    "--at", metavar="TIME", help='"02:00", "2026-10-25 02:30" (both in the zone of the job), RFC 3339, or now.'
)
@_cluster
@_output
def why(job: str, at: str | None, output: str, **options: Any) -> None:
    """Why JOB ran or did not run, from what is recorded.

    Without --at: its last time, its next one, and what is in the way of that.
    """
    from soloist.shells import cli_runs

    emit(output, *cli_runs.why_job(_target(options), job, at))


@cli.command()
@click.argument("job")
@click.option("--wait", is_flag=True, help="Follow the run to its end: exit code 0 succeeded, 3 nobody knows, else 1.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="With --wait: stop following (exit code 4)."
)
@_cluster
@_output
def trigger(job: str, wait: bool, timeout: float | None, output: str, **options: Any) -> None:
    """Run JOB now, beside its schedule. It passes the same gate, and ignores suspend and pause of the job."""
    from soloist.shells import cli_trigger

    def say(line: str) -> None:
        click.echo(line, err=output != "table")

    run, code = cli_trigger.trigger(_target(options), job, wait=wait, timeout=timeout, say=say)
    emit(output, run, [])
    click.get_current_context().exit(code)


@cli.command()
@click.argument("job", required=False)
@click.option("--all", "everything", is_flag=True, help="The whole installation: no run of any job starts.")
@click.option("--reason", default="", help="For whoever asks why.")
@_cluster
def pause(job: str | None, everything: bool, reason: str, **options: Any) -> None:
    """Hold JOB back until it is resumed. Its times pass, and are not made up for."""
    from soloist.shells import cli_pause

    name = _one_or_all(job, everything)
    click.echo(
        cli_pause.pause(_target(options), name, reason) if name else cli_pause.pause_all(_target(options), reason)
    )


@cli.command()
@click.argument("job", required=False)
@click.option("--all", "everything", is_flag=True, help="The whole installation.")
@_cluster
def resume(job: str | None, everything: bool, **options: Any) -> None:
    """Let JOB go on, whether a person paused it or it paused itself."""
    from soloist.shells import cli_pause

    name = _one_or_all(job, everything)
    click.echo(cli_pause.resume(_target(options), name) if name else cli_pause.resume_all(_target(options)))


def _one_or_all(job: str | None, everything: bool) -> str | None:
    if (job is not None) == everything:
        raise click.UsageError("Name one JOB, or write --all for the whole installation.")
    return job


@cli.command()
@click.argument("schedule", required=False)
@click.option("-f", "--file", metavar="FILE", help="A manifest with ScheduledJobs, - for stdin.")
@click.option("--zone", default="UTC", show_default=True, help="IANA zone of SCHEDULE.")
@click.option("--daylight-saving", type=click.Choice(["Shift", "WallClock"]), default="Shift", show_default=True)
@click.option("-c", "--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many times.")
@click.option("--from", "start", metavar="TIME", help="Instead of now; as --at of why.")
@_output
def preview(
    schedule: str | None, file: str | None, zone: str, daylight_saving: str, count: int, start: str | None, output: str
) -> None:
    """The next times of a schedule, without a cluster.

    Of SCHEDULE or of every ScheduledJob in a manifest, with what clock changes of the next year do to them.
    """
    from soloist.adapters.clock import SystemClock
    from soloist.shells import cli_preview

    if (schedule is None) == (file is None):
        raise click.UsageError('Write a SCHEDULE such as "0 2 * * *" (in quotes), or -f FILE.')
    found = (
        cli_preview.from_file(file)
        if file is not None
        else [cli_preview.from_text(schedule or "", zone, daylight_saving)]
    )
    now = SystemClock().now().replace(microsecond=0)
    shown = [cli_preview.preview(each, start=start, now=now, count=count) for each in found]
    lines = [line for number, (_, text) in enumerate(shown) for line in ([""] if number else []) + text]
    emit(output, {"schedules": [document for document, _ in shown]}, lines)


def _controller_options(function: Function) -> Function:
    """One option for each setting that has a flag; what is not given stays None, so that the environment is asked."""
    for row in reversed(rows()):
        if row.flag is None:
            continue
        default = ", ".join(map(str, row.default)) if row.several else row.default
        text = f"{row.meaning} [{row.env}{f'; default: {default}' if default != '' else ''}]"
        if row.kind is bool:
            option = click.option(f"{row.flag}/--no-{row.flag[2:]}", row.name, default=None, help=text)
        else:
            option = click.option(row.flag, row.name, default=None, multiple=row.several, metavar="VALUE", help=text)
        function = option(function)
    return function


@cli.command()
@_controller_options
def controller(**flags: Any) -> None:
    """Launch what is due; two or more replicas, one leads."""
    from soloist.shells.controller import run

    click.get_current_context().exit(run(controller_settings(flags)))


def controller_settings(flags: dict[str, Any]) -> ControllerSettings:
    """Flags, else the environment, else defaults; what is wrong is a sentence and exit code 2."""
    from soloist.shells.cli_target import context_namespace

    try:
        return load(flags, os.environ, kubeconfig_namespace=context_namespace)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


cli.add_command(migrate)
