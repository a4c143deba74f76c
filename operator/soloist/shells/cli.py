"""The command line, all of it on one page: what each command is called, takes and says of itself.

The bodies are in ``cli_*`` and are imported when they are needed, so that ``--help`` and ``preview`` do not wait for the
libraries that speak to a cluster.
"""

from typing import Any

import click

from soloist import __version__
from soloist.domain.errors import ConfigError
from soloist.shells.cli_elect import elect
from soloist.shells.cli_migrate import migrate
from soloist.shells.cli_options import cluster, controller_settings, each_setting, one_or_all, output_format, target
from soloist.shells.cli_queue import queue
from soloist.shells.cli_standalone import standalone
from soloist.shells.cli_text import emit, say
from soloist.shells.cli_worker import worker
from soloist.shells.settings import rows

EXIT_CODES = (
    "Exit codes: 0 done; 1 refused, not found, or the run failed; 2 the command line is wrong; "
    "3 trigger --wait: the run ended Unknown or Interrupted; 4 trigger --wait: not over in --timeout."
)


@click.group(epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="soloist")
def cli() -> None:
    """Every scheduled run launched once, however many replicas are up: look at it, and act on it."""


@cli.command()
@cluster
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@click.option(
    "--leader-within",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Wait so long for somebody to lead: exit code 1 where nobody does.",
)
@output_format
def status(all_namespaces: bool, leader_within: float | None, output: str, **options: Any) -> None:
    """Who leads, what is wrong, and every job; problems first."""
    from soloist.shells import cli_status

    document, lines = cli_status.status(target(options, everywhere=all_namespaces), patience=leader_within or 0.0)
    emit(output, document, lines)
    click.get_current_context().exit(0 if leader_within is None or cli_status.is_led(document) else 1)


@cli.command()
@click.argument("job")
@cluster
@output_format
def runs(job: str, output: str, **options: Any) -> None:
    """The runs of JOB, newest first, and its times without a run."""
    from soloist.shells import cli_runs

    emit(output, *cli_runs.runs(target(options), job))


@cli.command()
@click.argument("job")
@click.option(
    "--at", metavar="TIME", help='"02:00", "2026-10-25 02:30" (both in the zone of the job), RFC 3339, or now.'
)
@cluster
@output_format
def why(job: str, at: str | None, output: str, **options: Any) -> None:
    """Why JOB ran or did not run, from what is recorded.

    Without --at: its last time, its next one, and what is in the way of that.
    """
    from soloist.shells import cli_runs

    emit(output, *cli_runs.why_job(target(options), job, at))


@cli.command()
@click.argument("job")
@click.option("--wait", is_flag=True, help="Follow the run to its end: exit code 0 succeeded, 3 nobody knows, else 1.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="With --wait: stop following (exit code 4)."
)
@cluster
@output_format
def trigger(job: str, wait: bool, timeout: float | None, output: str, **options: Any) -> None:
    """Run JOB now, beside its schedule. It passes the same gate, and ignores suspend and pause of the job."""
    from soloist.shells import cli_trigger

    def tell(line: str) -> None:
        say(line, err=output != "table")

    run, code = cli_trigger.trigger(target(options), job, wait=wait, timeout=timeout, say=tell)
    emit(output, run, [])
    click.get_current_context().exit(code)


@cli.command()
@click.argument("job", required=False)
@click.option("--all", "everything", is_flag=True, help="The whole installation: no run of any job starts.")
@click.option("--reason", default="", help="For whoever asks why.")
@cluster
def pause(job: str | None, everything: bool, reason: str, **options: Any) -> None:
    """Hold JOB back until it is resumed. Its times pass, and are not made up for."""
    from soloist.shells import cli_pause

    name = one_or_all(job, everything)
    say(cli_pause.pause(target(options), name, reason) if name else cli_pause.pause_all(target(options), reason))


@cli.command()
@click.argument("job", required=False)
@click.option("--all", "everything", is_flag=True, help="The whole installation.")
@cluster
def resume(job: str | None, everything: bool, **options: Any) -> None:
    """Let JOB go on, whether a person paused it or it paused itself."""
    from soloist.shells import cli_pause

    name = one_or_all(job, everything)
    say(cli_pause.resume(target(options), name) if name else cli_pause.resume_all(target(options)))


@cli.command()
@click.argument("schedule", required=False)
@click.option("-f", "--file", metavar="FILE", help="A manifest with ScheduledJobs, - for stdin.")
@click.option("--zone", default="UTC", show_default=True, help="IANA zone of SCHEDULE.")
@click.option("--daylight-saving", type=click.Choice(["Shift", "WallClock"]), default="Shift", show_default=True)
@click.option("-c", "--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many times.")
@click.option("--from", "start", metavar="TIME", help="Instead of now; as --at of why.")
@output_format
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


@cli.command()
@each_setting(rows())
def controller(**flags: Any) -> None:
    """Launch what is due; two or more replicas, one leads."""
    from soloist.shells.controller import run

    try:
        code = run(controller_settings(flags))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    click.get_current_context().exit(code)


cli.add_command(elect)
cli.add_command(migrate)
cli.add_command(queue)
cli.add_command(standalone)
cli.add_command(worker)
