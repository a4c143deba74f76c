"""Whose certificates a server may show: the system's, those of a given bundle alone, or anybody's.

A context costs milliseconds to build and decides which connections may be shared, so there is one for each content of a
bundle, not one for each request.
"""

import hashlib
import ssl
from collections import OrderedDict

from soloist.adapters.sealed import ReadKey
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError

_MOST_CONTEXTS = 128


class TrustStore:
    """TLS contexts by what is in the bundle; the one used longest ago makes room."""

    def __init__(self) -> None:
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    def context(self, pem: str) -> ssl.SSLContext:
        """The context that trusts the certificates of ``pem`` and no others; ValueError where there are none."""
        ascii_only = pem.encode("ascii", errors="ignore")  # names in comments between the certificates are not
        content = hashlib.sha256(ascii_only).hexdigest()
        if content in self._contexts:
            self._contexts.move_to_end(content)
            return self._contexts[content]
        try:
            context = ssl.create_default_context(
                cadata=ascii_only.decode() or "\n"
            )  # nothing at all would mean the system's
        except (ssl.SSLError, ValueError) as problem:
            raise ValueError("holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)") from problem
        # Python 3.13 made this a default; the authorities of many clusters lack the extensions that it asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._contexts[content] = context
        if len(self._contexts) > _MOST_CONTEXTS:
            self._contexts.popitem(last=False)
        return context

    async def of(self, namespace: str, ca: KeyRef | None, *, verify: bool, read_key: ReadKey) -> ssl.SSLContext | bool:
        """What aiohttp is to verify a server by: False for nobody, True for the system's, or the context of ``ca``."""
        if not verify or ca is None:
            return verify
        bundle = await read_key(namespace, ca)
        try:
            return self.context(bundle.reveal())
        except ValueError as problem:
            raise PermanentError(f"{ca.kind} {ca.name}, key {ca.key}, {problem}.") from problem
