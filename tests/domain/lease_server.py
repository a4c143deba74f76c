"""An API server that holds one Lease: resourceVersions, uids, preconditions, and somebody who looks at each write."""

from __future__ import annotations

import copy
from collections.abc import Callable

from soloist.domain.lease import LeaseRecord, Raw, parse
from soloist.domain.standing import Candidate


class LeaseServer:
    """``written`` is told of each write that landed, with its writer; ``blind``: by one that never saw a holder."""

    def __init__(self) -> None:
        self.lease: Raw | None = None
        self._version = self._uids = 0

    def written(self, writer: Candidate, before: LeaseRecord | None, after: LeaseRecord, *, blind: bool) -> None:
        raise NotImplementedError

    def create(self, body: Raw, writer: Candidate, *, blind: bool) -> bool:
        if self.lease is not None:
            return False
        self._uids += 1
        self.write({**body, "metadata": {**body["metadata"], "uid": f"uid{self._uids}"}}, writer=writer, blind=blind)
        return True

    def replace(self, body: Raw, writer: Candidate) -> bool:
        if self.lease is None:
            return False
        now, then = self.lease["metadata"], body["metadata"]
        if (now["uid"], now["resourceVersion"]) != (then["uid"], then["resourceVersion"]):
            return False
        self.write(body, writer=writer)
        return True

    def write(self, body: Raw, writer: Candidate | None = None, *, blind: bool = False) -> None:
        before = parse(self.lease) if self.lease is not None else None
        self._version += 1
        self.lease = copy.deepcopy({**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}})
        after = parse(self.lease)
        if writer is not None:
            self.written(writer, before, after, blind=blind)

    def edit(self, change: Callable[[Raw], None]) -> None:
        """A person edits the Lease."""
        if self.lease is not None:
            body = copy.deepcopy(self.lease)
            change(body)
            self.write(body)
