"""Objects in rows of ``soloist.objects``, as an API server would give them.

Why a table of documents, beside ``soloist.job_runs``: a run has to be there before it may be launched, and be read back with
its status; a row of the ledger is there only once its effect has committed, perhaps in another database, and is pruned by
age. Why one table for all kinds: they are claimed, recorded and settled by the same conditional writes, and a version that
rises over all of them is what whoever reads on goes by. Spec and status are columns of their own, so that a status write,
nearly every write there is, leaves the spec where it lies.
"""

from typing import Any

from soloist.adapters.postgres.database import Row
from soloist.domain.instants import stamp
from soloist.ports import Raw

API_VERSION = "soloist.dev/v1alpha1"
JOB, RUN, QUEUE = "ScheduledJob", "JobRun", "WorkQueue"
OWN_DATABASE = "soloist.dev/own-database"
"""Annotation of a WorkQueue whose rows are in the very database in which it is found itself."""
_KEPT = ("labels", "annotations", "ownerReferences")


def raw_of(row: Row) -> Raw:
    """The object of ``kind, namespace, name, uid, version, generation, created_at, edited_at, metadata, spec, status``."""
    kind, namespace, name, uid, version, generation, created, edited, metadata, spec, status = row
    raw: Raw = {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            **metadata,
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": generation,
            "creationTimestamp": stamp(created.replace(microsecond=0)),
            "managedFields": [{"time": stamp(edited.replace(microsecond=0))}],
        },
        "spec": spec,
    }
    if status is not None:
        raw["status"] = status
    return raw


def kept(metadata: Raw) -> dict[str, Any]:
    """Of an object's metadata what has no column of its own."""
    return {key: metadata[key] for key in _KEPT if metadata.get(key)}
