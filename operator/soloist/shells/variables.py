"""Variables that look like settings and are none: a wrong letter must not mean the default, silently.

What another command knows is known here too, since one ConfigMap may serve both. So is what Kubernetes sets for each Service of
a namespace: for one named "soloist" these variables begin as ours do, and none of them is a person's mistake.
"""

import difflib
import re
from collections.abc import Mapping
from logging import Logger

from soloist.shells import elect_settings, settings, standalone_settings, worker_settings
from soloist.shells.beat import FD_VARIABLE
from soloist.shells.child import PARENT_VARIABLE
from soloist.shells.parsing import LINK

_TOLD_A_HANDLER = {"SOLOIST_RUN", "SOLOIST_KEY", "SOLOIST_FENCE", "SOLOIST_SCHEDULED_TIME", "SOLOIST_ATTEMPT"}
SECRET = "SOLOIST_SECRET_"
"""How a Secret's key is given to a process that has no API server to ask."""

_OF_A_SERVICE = re.compile(r".*_SERVICE_(HOST|PORT(_\w+)?)|.*_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?")


def unknown(env: Mapping[str, str]) -> list[str]:
    """A sentence for each variable ``SOLOIST_…`` that changes nothing, with the nearest that does."""
    tables = (settings, worker_settings, elect_settings, standalone_settings)
    known = {row.env for each in tables for row in each.rows()}
    passed_over = {FD_VARIABLE, PARENT_VARIABLE, *_TOLD_A_HANDLER}
    sentences = []
    for name in sorted(name for name in env if name.startswith("SOLOIST_")):
        if (
            name in known
            or name in passed_over
            or name.startswith(SECRET)
            or _OF_A_SERVICE.fullmatch(name)
            or LINK.match(env[name])
        ):
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        remedy = f"write {near[0]}" if near else "see docs/settings.md for those that are, or remove it"
        sentences.append(f"{name} is set, but is no setting and changes nothing: {remedy}.")
    return sentences


def warn(env: Mapping[str, str], log: Logger) -> None:
    """Say so, once, at the start."""
    for sentence in unknown(env):
        log.warning("unknown variable", extra={"sentence": sentence})
