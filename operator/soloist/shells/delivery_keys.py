"""Whether the Secrets and ConfigMaps that the deliveries of a queue are made of are there: the ``QueueKeys`` port.

A delivery reads them again and again, so one that is missing fails row after row; the leader sees it before there is a row.
Only what is not there is told. What this process may not read, a worker may: it has rights of its own.
"""

from soloist.adapters.sealed import ReadKey
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.queue_delivery import keys_of
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import QueueSpec


class DeliveryKeys:
    """``forbidden``: how ``read_key`` says that this process may not."""

    def __init__(self, read_key: ReadKey, *, forbidden: type[PermanentError] | None = None) -> None:
        self._read_key, self._forbidden = read_key, forbidden

    async def missing(self, name: QueueName, spec: QueueSpec) -> str | None:
        for ref in keys_of(spec.deliver):
            try:
                await self._read_key(name.namespace, ref)
            except TransientError:
                return None
            except PermanentError as error:
                if self._forbidden is None or not isinstance(error, self._forbidden):
                    return str(error)
        return ""
