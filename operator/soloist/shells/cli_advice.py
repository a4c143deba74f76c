"""Which command a sentence advises, to somebody who asks the rows of a database and has no cluster.

Sentences name commands as they are typed on a cluster, ``kubectl soloist resume nightly -n billing``: many are stored in a
status, and what wrote one cannot know who will read it. So all of them are worded where they are printed, or logged: without
kubectl, and with the flags that name the database; where there is no such command, as a statement for psql. The URL of the
database is never repeated, since it may hold a password.
"""

import re
from typing import Any

import click

_REMEDY = "Look at the processes on this database, or start one: soloist standalone -f DIR."
_NAME = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_NAMED = rf"{_NAME}(?: -n {_NAME})?"
_COMMAND = re.compile(
    rf"kubectl soloist (?P<command>status|(?:queue )?[a-z]+ (?:--all|{_NAMED})(?: --at TIME)?)"
    rf"|kubectl describe sj (?P<job>{_NAMED})"
    r"|kubectl get (?P<jobs>sj)\b"
)
_OBJECT = rf"(?P<name>{_NAME}) -n (?P<namespace>{_NAME})"
_WHERE = r"WHERE (kind, namespace, name) = ('{kind}', '\g<namespace>', '\g<name>')"
_NOW = """to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
_STATEMENTS = (
    (re.compile(f"kubectl get jobrun {_OBJECT} -o yaml"), "SELECT * FROM soloist.objects " + _WHERE.format(kind="JobRun")),
    (
        re.compile(f"kubectl patch sj {_OBJECT} --subresource=status --type=merge -p '\\{{.*\\}}'"),
        f"UPDATE soloist.objects SET status = soloist.merged(status, jsonb_build_object('watermark', {_NOW})), writer = 'psql',"
        f" version = soloist.next_version(shard) {_WHERE.format(kind='ScheduledJob')}"
        f" AND status ->> 'watermark' > {_NOW}",
    ),
)  # fmt: skip
_FLAGS = f"{__name__}.flags"


def advise(flags: str | None) -> None:
    """Words what this command prints from now on for somebody without a cluster, who adds ``flags``; None: with one."""
    click.get_current_context().meta[_FLAGS] = flags


def worded(said: Any) -> Any:
    """A line, or a document with lines in it, as it is to be printed."""
    context = click.get_current_context(silent=True)
    flags = context.meta.get(_FLAGS) if context is not None else None
    return said if flags is None else without_a_cluster(said, flags)


def without_a_cluster(said: Any, flags: str) -> Any:
    """``flags`` begin with a space where there are any."""
    from soloist.domain.why_facts import ABSENCE_REMEDY  # half of what a start imports, which few starts need

    match said:
        case str():
            for command, statement in _STATEMENTS:
                said = command.sub(statement, said)
            return _COMMAND.sub(lambda found: _command(found, flags), said.replace(ABSENCE_REMEDY, _REMEDY))
        case dict():
            return {name: without_a_cluster(each, flags) for name, each in said.items()}
        case list() | tuple():
            return [without_a_cluster(each, flags) for each in said]
    return said


def _command(found: re.Match[str], flags: str) -> str:
    command = "status" if found["jobs"] else found["command"] or f"why {found['job']}"
    return f"soloist {command}{flags}"
