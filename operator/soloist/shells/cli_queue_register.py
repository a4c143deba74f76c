"""``soloist queue register``: puts a mapped queue's SQL into its database, for workers in other languages."""

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.registration import register as put
from soloist.domain.queue_spec import MappedTable
from soloist.shells.cli_queue_place import QueuePlace, ask, database_name
from soloist.shells.cli_text import Complaint


def register(place: QueuePlace) -> list[str]:
    """What was done."""
    spec = place.usable()
    if not isinstance(spec.table, MappedTable):
        raise Complaint(
            f"The rows of {place.name} are in soloist.work_items, whose functions need no registration: "
            f"call soloist.claim('{place.name}')."
        )

    async def conversation(database: Database) -> str:
        await put(database, str(place.name), spec)
        return database_name(database)

    where = ask(place, conversation)
    return [
        f"{place.name}: its functions work on {place.table} in {where}.",
        f"Call soloist.claim_rows('{place.name}'). After a change of the WorkQueue, register it again.",
    ]
