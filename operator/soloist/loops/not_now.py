"""What stands in the way of a step and may pass: the job comes back to it, and what else it has to do is done meanwhile."""

from typing import NoReturn

from soloist.domain.runs import Job
from soloist.ports import Report


class NotNow(Exception):
    """Refused for a reason that may pass (a quota, an admission webhook): come back in ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


def crds_too_old(report: Report, job: Job, field: str) -> NoReturn:
    """The server drops what its schema does not know, without a word; going on would write the same for ever."""
    remedy = (
        "apply the CRDs of this version (manifests/crds); until then runs are late, and a hand-over leaves them Unknown"
    )
    report.stands_in_the_way(job, "CrdsTooOld", f"The API server does not keep {field}: {remedy}.")
    raise NotNow(30.0)
