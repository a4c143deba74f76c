"""Another installation (another Lease) that serves the same job: said once, since its runs are left alone.

The watermark's precondition lets only one of the two record a tick, so each still runs once; but neither pauses, adopts
or cancels the other's runs, and that is hardly what a person wants.
"""

from soloist.domain.view import View
from soloist.ports import Report


class Neighbours:
    """Remembers what it has said."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._told: set[tuple[str, str]] = set()

    def look(self, view: View) -> None:
        for lease in view.neighbours:
            if (view.job.uid, lease) in self._told:
                continue
            self._told.add((view.job.uid, lease))
            message = (
                f"The installation of Lease {lease} has runs of this job, and so has that of {view.lease}: "
                "serve each namespace by one of them only (--namespace, --lease-name)."
            )
            self._report.stands_in_the_way(view.job, "OtherInstallation", message)
