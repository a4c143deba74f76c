"""A Lease in a row of ``soloist.leases``: to the elector the same document, under the same rules, as on an API server.

Uid and version are the preconditions of a write, as uid and resourceVersion are there; the database's clock stands in for
the server's Date, to the microsecond. A write that takes an epoch takes ``soloist.leader_epoch`` in the same transaction.
It lies in a table of its own because transactions of a leader's runs lock the epoch for as long as they commit, and enough
of them, one after the other, would keep a renewal waiting.

There are no Pods, hence no evidence from a kubelet: a hand-over waits for a release, which a living parent writes too, or
for the lease to run out.
"""

from soloist.adapters.postgres.bounded import BoundedDatabase
from soloist.adapters.postgres.row_texts import json_text
from soloist.adapters.postgres.statements import statement
from soloist.adapters.postgres.url import database_url
from soloist.domain.errors import TransientError
from soloist.domain.lease import Answer, Clash, Raw

_OF_THE_ROW = ("uid", "resourceVersion")


class RowLease:
    """``namespace`` and ``name`` are the Lease's; ``shard`` is its row, and what epochs are counted of. ``database`` is its URL, with a password perhaps."""

    def __init__(self, database: str, *, namespace: str, name: str, shard: str | None = None) -> None:
        self._url, self._namespace, self._name = database, namespace, name
        self.shard = shard or f"{namespace}/{name}"
        self._database = BoundedDatabase(database_url(database))

    @property
    def facts(self) -> dict[str, str]:
        """For the parent, which gives the lease back once this process is dead."""
        return {"database": self._url, "shard": self.shard}

    def read(self, *, timeout: float) -> Answer:
        """The lease as it is committed, and the database's time."""
        (row,) = self._database.fetch(statement("read_lease"), {"shard": self.shard}, timeout=timeout)
        at, standby, uid, version, lease = row
        if standby:
            raise TransientError(f"{self._database.name} is a standby, and may be behind", sent=False)
        return Answer(lease=None if uid is None else self._whole(lease, uid, version), server_time=at)

    def create(self, body: Raw, *, timeout: float) -> Answer | Clash:
        """A new row; one that is there already is a ``Clash``."""
        return self._write(body, None, None, timeout)

    def replace(self, body: Raw, *, timeout: float) -> Answer | Clash:
        """Write, if the row still has the uid and the version that ``body`` has."""
        metadata = body.get("metadata") or {}
        return self._write(body, str(metadata.get("uid")), str(metadata.get("resourceVersion")), timeout)

    def read_pod(self, pod_namespace: str, pod_name: str, *, timeout: float) -> Raw | None:
        """Nobody can say: there is no kubelet."""
        return None

    def close(self) -> None:
        self._database.close()

    def _write(self, body: Raw, uid: str | None, version: str | None, timeout: float) -> Answer | Clash:
        metadata = {key: value for key, value in (body.get("metadata") or {}).items() if key not in _OF_THE_ROW}
        lease = {**body, "metadata": metadata}
        values = {"shard": self.shard, "uid": uid, "version": version, "lease": json_text(lease)}
        rows = self._database.fetch(statement("write_lease"), values, timeout=timeout)
        if not rows:
            return Clash()
        ((at, new_uid, new_version),) = rows
        return Answer(lease=self._whole(lease, new_uid, new_version), server_time=at)

    def _whole(self, lease: Raw, uid: str, version: int) -> Raw:
        of_the_row = {"namespace": self._namespace, "name": self._name, "uid": uid, "resourceVersion": str(version)}
        return {**lease, "metadata": {**(lease.get("metadata") or {}), **of_the_row}}
