"""What a database URL asks for: where to connect, and how. Prisma's ``DATABASE_URL`` is taken as it is.

Prisma's parameters are ours to heed (its engine reads them, libpq would refuse them); all the others are libpq's, and go
on to it. Where both use one name, Prisma's sense is known by its company: ``sslcert`` without ``sslkey`` is the
certificate of an authority. Nothing that is asked for becomes session state, so a transaction pooler may lie in between.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from psycopg import pq

from soloist.domain.database_url import taken_apart
from soloist.domain.errors import PermanentError

PRISMA = (
    "schema", "pgbouncer", "connection_limit", "pool_timeout", "connect_timeout", "socket_timeout",
    "statement_cache_size", "max_connection_lifetime", "max_idle_connection_lifetime", "sslmode", "sslcert", "sslaccept",
    "sslidentity", "sslpassword", "application_name", "channel_binding", "options", "single_use_connections",
)  # fmt: skip
# Of node-postgres, which Prisma 7 hands its URL to, and of JDBC, which libpq understands in a URL.
OTHERS = ("uselibpqcompat", "ssl")
LIBPQ = frozenset(option.keyword.decode() for option in pq.Conninfo.get_defaults())
BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
SECRETS = frozenset({"password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrl:
    """Seconds and counts. ``libpq`` holds the password, so it is never shown."""

    libpq: Mapping[str, str] = field(repr=False)
    schema: str | None = None
    pooler: bool = False
    connections: int = 10
    prepared: int = 100
    pool_timeout: float = 10.0
    connect_timeout: float = 5.0
    statement_timeout: float = 10.0
    lifetime: float = 3600.0
    idle: float = 300.0

    @property
    def name(self) -> str:
        """As messages call it."""
        host = self.libpq.get("host") or self.libpq.get("hostaddr") or "this machine"
        database = self.libpq.get("dbname") or self.libpq.get("user") or "its default"
        return f"The database {database} at {host}"


def database_url(text: str) -> DatabaseUrl:
    """Reads a URL or a keyword string; raises PermanentError with a sentence that shows no secret."""
    given = taken_apart(text)
    for name in given:
        _known(name)
    prepared = _whole(given, "statement_cache_size", 100, most=10_000)
    pooler = _boolean(given, "pgbouncer")
    return DatabaseUrl(
        libpq=_for_libpq(given),
        schema=given.get("schema") or None,
        pooler=pooler,
        connections=_whole(given, "connection_limit", 10, least=1, most=1000),
        prepared=0 if pooler else prepared,
        # Zero is no limit at all in Prisma. Here nothing waits for ever, so it is as if nothing had been written.
        pool_timeout=_whole(given, "pool_timeout", 10) or 10,
        connect_timeout=_whole(given, "connect_timeout", 5) or 5,
        statement_timeout=_whole(given, "socket_timeout", 10) or 10,
        lifetime=_whole(given, "max_connection_lifetime", 3600) or 3600,
        idle=_whole(given, "max_idle_connection_lifetime", 300) or 300,
    )


def _known(name: str) -> None:
    names = sorted({*PRISMA, *OTHERS, *LIBPQ})
    if name in names:
        return
    near = get_close_matches(name, names, n=1)
    remedy = f"write {near[0]}" if near else "take it out"
    raise PermanentError(
        f'The database URL has a parameter "{name[:60]}", which is not known: {remedy}. Known are Prisma\'s '
        f"({', '.join(sorted(PRISMA))}) and those of libpq (such as host, sslrootcert, target_session_attrs, keepalives)."
    )


def _for_libpq(given: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in given.items() if name in LIBPQ}
    if given.get("sslidentity"):
        raise PermanentError(
            "The database URL has sslidentity, the path of a PKCS #12 file, which libpq cannot read: take certificate "
            "and key out of it as PEM files, and write sslcert= and sslkey= with their paths instead."
        )
    if given.get("sslmode") == "no-verify" or (_boolean(given, "ssl") and "sslmode" not in given):
        kept["sslmode"] = "require"
    if "sslcert" in kept and not kept.keys() & {"sslkey", "sslrootcert"}:
        authority = kept.pop("sslcert")
        if given.get("sslaccept") == "strict":
            kept["sslrootcert"] = authority
    accept = given.get("sslaccept", "accept_invalid_certs")
    if accept not in {"strict", "accept_invalid_certs"}:
        raise _wrong("sslaccept", accept, "strict or accept_invalid_certs")
    if accept == "strict" and kept.get("sslmode") != "disable":
        kept["sslmode"] = "verify-full"
        kept.setdefault("sslrootcert", "system")
    if "sslkey" not in kept:
        kept.pop("sslpassword", None)
    kept.pop("connect_timeout", None)
    return kept


def _boolean(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "false")
    if value not in BOOLEANS:
        raise _wrong(name, value, "true or false")
    return BOOLEANS[value]


def _whole(given: Mapping[str, str], name: str, otherwise: int, *, least: int = 0, most: int = 86_400) -> int:
    value = given.get(name, str(otherwise))
    if not (value.isascii() and value.isdigit() and len(value) < 10 and least <= int(value) <= most):
        raise _wrong(name, value, f"a whole number from {least} to {most}")
    return int(value)


def _wrong(name: str, value: str, right: str) -> PermanentError:
    return PermanentError(f'The database URL\'s {name} is "{value[:40]}", and must be {right}.')
