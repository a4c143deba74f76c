"""Which actions there are where: a Job needs a cluster, a command on this host needs that there is none, and leave."""

from collections.abc import Mapping

from soloist.domain.actions import Action, ExecAction, JobAction
from soloist.domain.spec import Invalid, Spec

Refused = Mapping[type[Action], Invalid]


def _refused(field: str, message: str) -> Invalid:
    return Invalid(field=f"spec.{field}", reason="FieldForbidden", message=f"spec.{field} {message}")


_NO_CLUSTER = _refused(
    "job",
    "needs Kubernetes, and this is soloist standalone: write http, sql, enqueue or exec instead, or run soloist controller on a cluster.",
)
_NO_LEAVE = _refused("exec", "runs a command on this host, which is off: start soloist standalone with --allow-exec.")
_NO_HOST = _refused("exec", "is for soloist standalone: write job instead, which runs the command in a Pod.")

ON_A_CLUSTER: Refused = {ExecAction: _NO_HOST}


def without_a_cluster(*, commands: bool) -> Refused:
    """``commands``: whether they may be run on this host."""
    return {JobAction: _NO_CLUSTER} if commands else {JobAction: _NO_CLUSTER, ExecAction: _NO_LEAVE}


def fits(spec: Spec | Invalid, refused: Refused) -> Spec | Invalid:
    """The spec where its action may be run there, else why it may not, whatever else is wrong with that action."""
    if isinstance(spec, Invalid):
        return next((why for why in refused.values() if f"{spec.field}.".startswith(f"{why.field}.")), spec)
    return refused.get(type(spec.action), spec)
