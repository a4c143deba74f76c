"""Of WorkQueues that name one table, the one whose table it is: what workers go by, where only the controller can tell all.

Two queues over one table would send its rows to two places, and the same row twice where one claims Inline and the other
beside the table. A worker sees for itself that two name the same table by the same Secret, and refuses the later before it
is opened. Whether two Secrets lead to one database is for those who ask the databases: their word on the object's own
status counts, for the spec that it was given on. A queue that is suspended, or worked by others, keeps its table.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from soloist.domain.instants import parse_time
from soloist.domain.queue_name import FoundQueues, QueueName, name_of
from soloist.domain.queue_spec import DatabaseRef, MappedTable
from soloist.domain.queue_validity import UNDATED, Claimant, Standing, already_served, served_by
from soloist.domain.spec_fields import Invalid
from soloist.domain.told import told

_Object = Mapping[str, Any]


def one_each(objects: Iterable[_Object], found: FoundQueues) -> FoundQueues:
    """The same queues, those whose table is another's among the invalid. ``objects``: what they were found in."""
    mapped: dict[QueueName, tuple[_Object, MappedTable]] = {}
    claimants = []
    for each in objects:
        name = name_of(each["metadata"])
        spec = found.valid.get(name)
        if spec is not None and isinstance(spec.table, MappedTable):
            mapped[name] = each, spec.table
            claimants.append(_claimant(name, each, spec.database, spec.table))
    others = served_by(claimants)
    refused = {}
    for name, (each, table) in mapped.items():
        message = already_served(table, others[name]) if name in others else _told(each)
        if message:
            refused[name] = Invalid(field="spec.table.name", reason=Standing.ALREADY_SERVED, message=message)
    valid = {name: spec for name, spec in found.valid.items() if name not in refused}
    return replace(found, valid=valid, invalid={**found.invalid, **refused}) if refused else found


def _claimant(name: QueueName, obj: _Object, database: DatabaseRef, table: MappedTable) -> Claimant:
    metadata = obj["metadata"]
    return Claimant(
        queue=name,
        uid=metadata.get("uid") or str(name),
        created=parse_time(metadata.get("creationTimestamp")) or UNDATED,
        installation=f"{name.namespace}/{database.secret_name}/{database.key}",
        table=table.name,
    )


def _told(obj: _Object) -> str:
    """What its condition says, where it says that the table is another's; empty otherwise."""
    said = told(obj.get("status"), "Valid")
    of_this = said.get("observedGeneration") == obj["metadata"].get("generation")
    return str(said.get("message")) if of_this and said.get("reason") == Standing.ALREADY_SERVED else ""
