"""``soloist elect``: the command line of a sidecar's settings, and of the command that it runs while it holds the Lease."""

import os
from typing import Any

import click

from soloist.domain.errors import ConfigError
from soloist.shells.cli_options import each_setting
from soloist.shells.elect_settings import load, rows


@click.command()
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@each_setting(rows())
def elect(command: tuple[str, ...], **flags: Any) -> None:
    """Beside an application: who leads, and slots for its timers.

    Behind -- a COMMAND may follow that runs while the one Lease is held.
    """
    from soloist.shells.cli_target import context_namespace
    from soloist.shells.elect import run

    try:
        settings = load(flags, os.environ, kubeconfig_namespace=context_namespace)
        if command and len(settings.leases) != 1:
            raise ConfigError(
                f"a command is run under one Lease, and {len(settings.leases)} are named: write --lease once."
            )
        code = run(settings, command)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    click.get_current_context().exit(code)
