"""The options that several commands take, each once, and what is made of them: a cluster to ask, or a controller's settings.

Nothing here speaks to a cluster, nor imports what does before it is asked for one.
"""

import os
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from soloist.domain.errors import ConfigError
from soloist.shells.parsing import Row
from soloist.shells.settings import ControllerSettings, load

if TYPE_CHECKING:
    from soloist.shells.cli_target import Target

Function = TypeVar("Function", bound=Callable[..., Any])
_SHORT = {"files": ("-f",)}

output_format = click.option(
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


access = _options(
    click.option("--kubeconfig", default="", help="Kubeconfig file; default: $KUBECONFIG, then ~/.kube/config."),
    click.option("--context", default="", help="Context of the kubeconfig; default: its current one."),
    click.option("-n", "--namespace", default="", help="Namespace; default: the context's."),
)  # fmt: skip
lease = _options(
    click.option("--lease-name", default="soloist", envvar="SOLOIST_LEASE_NAME", show_default=True, help="Name of the controllers' Lease."),
    click.option("--lease-namespace", default="", envvar="SOLOIST_LEASE_NAMESPACE", help="Its namespace; default: found."),
)  # fmt: skip
embedded = _options(
    click.option("--embedded", is_flag=True, envvar="SOLOIST_EMBEDDED", help="Instead of a cluster: its embedded database [SOLOIST_EMBEDDED]."),
    click.option("--data", default="", envvar="SOLOIST_DATA", help="With --embedded: its folder; default: ~/.local/share/soloist."),
)  # fmt: skip
cluster = _options(
    access,
    lease,
    click.option("--database", default="", envvar="SOLOIST_DATABASE", help="Instead of a cluster: the database of soloist standalone [SOLOIST_DATABASE]."),
    embedded,
)  # fmt: skip


def target(options: dict[str, Any], **more: Any) -> "Target":
    """The cluster that the options of ``cluster`` or ``access`` name."""
    from soloist.shells.cli_advice import advise
    from soloist.shells.cli_target import Target

    names = ("kubeconfig", "context", "namespace", "lease_name", "lease_namespace")
    found = {name: options[name] for name in names if name in options}
    if not found.get("kubeconfig") and not found.get("context"):
        more["one_host"] = bool(options.get("embedded")) and not options.get("database")
        more["database"] = _embedded(options["data"]) if more["one_host"] else options.get("database") or ""
        more["flags"] = _flags(options, ("embedded", "data") if more["one_host"] else ("database",))
    advise(more["flags"] if more.get("database") else None)
    return Target.of(**found, **more)


def _flags(options: dict[str, Any], names: Sequence[str]) -> str:
    """Those that were typed, for the next command: what the environment says it says again."""
    shown = {"embedded": "", "data": f" {shlex.quote(options.get('data') or '')}", "database": " URL"}
    source = click.get_current_context().get_parameter_source
    return "".join(f" --{name}{shown[name]}" for name in names if source(name) is ParameterSource.COMMANDLINE)


def _embedded(folder: str) -> str:
    from soloist.adapters.postgres.embedded import Embedded
    from soloist.shells.cli_text import Complaint
    from soloist.shells.standalone_settings import folder_of

    try:
        server = Embedded(folder_of(folder))
    except ConfigError as error:
        raise Complaint(str(error)) from error
    if not server.runs():
        raise Complaint(
            f"Nobody uses the embedded database in {server.folder} now, so it does not run: start"
            " soloist standalone -f DIR --embedded, and name its folder here too (--data)."
        )
    return server.url


def one_or_all(job: str | None, everything: bool) -> str | None:
    if (job is not None) == everything:
        raise click.UsageError("Name one JOB, or write --all for the whole installation.")
    return job


def each_setting(table: Sequence[Row]) -> Callable[[Function], Function]:
    """One option for each setting that has a flag; what is not given stays None, so that the environment is asked."""
    return _options(*(_setting(row) for row in table if row.flag is not None))


def _setting(row: Row) -> Callable[[Function], Function]:
    default = ", ".join(map(str, row.default)) if row.several else row.default
    text = f"{row.meaning} [{row.env}{f'; default: {default}' if default != '' else ''}]"
    if row.kind is bool:
        return click.option(f"{row.flag}/--no-{str(row.flag)[2:]}", row.name, default=None, help=text)
    flags = [*_SHORT.get(row.name, ()), str(row.flag)]
    return click.option(*flags, row.name, default=None, multiple=row.several, metavar="VALUE", help=text)


def controller_settings(flags: dict[str, Any]) -> ControllerSettings:
    """Flags, else the environment, else defaults; what is wrong is a sentence and exit code 2."""
    from soloist.shells.cli_target import context_namespace

    try:
        return load(flags, os.environ, kubeconfig_namespace=context_namespace)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
