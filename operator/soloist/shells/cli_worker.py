"""``soloist worker``: the command line of a worker's settings."""

import os
from typing import Any

import click

from soloist.domain.errors import ConfigError
from soloist.shells.cli_options import each_setting
from soloist.shells.worker_settings import load, rows


@click.command()
@each_setting(rows())
def worker(**flags: Any) -> None:
    """Claim and deliver the due rows of every WorkQueue; as many replicas as you like."""
    from soloist.shells.worker import run

    try:
        settings = load(flags, os.environ)
        code = run(settings)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    click.get_current_context().exit(code)
