"""``soloist standalone``: the command line of its settings."""

import os
from typing import Any

import click

from soloist.domain.errors import SoloistError
from soloist.shells.cli_options import each_setting
from soloist.shells.standalone_settings import load, rows


@click.command()
@each_setting(rows())
def standalone(**flags: Any) -> None:
    """Without Kubernetes: launch and work what is in files, over PostgreSQL; as many replicas as you like."""
    from soloist.shells.standalone import run

    try:
        settings = load(flags, os.environ)
        code = run(settings)
    except SoloistError as error:
        raise click.UsageError(str(error)) from error
    click.get_current_context().exit(code)
