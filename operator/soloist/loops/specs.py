"""What a job is to do, or why it cannot be done."""

from soloist.domain.places import ON_A_CLUSTER, fits
from soloist.domain.runs import Job
from soloist.domain.spec import Invalid, Spec, parse_spec


def _nothing_to_run() -> Spec:
    spec = parse_spec({"schedule": "@yearly", "http": {"url": "http://localhost/"}})
    if isinstance(spec, Invalid):
        raise TypeError(spec.message)
    return spec


NOTHING_TO_RUN = _nothing_to_run()
"""Stands for a spec that cannot be run, where none that could has been seen: its time-out counts, nothing else."""


def runnable(job: Job) -> Spec | Invalid:
    """The spec, or why it cannot be run on a cluster."""
    return fits(job.spec, ON_A_CLUSTER)
