"""What a database says about one table of a user's, as values: what statements are composed from, and a mapping is held against.

Nothing here is asked of the database again: a catalog is read once when a queue is opened or checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

TEXTS = frozenset({"text", "varchar", "bpchar", "citext", "name"})
WHOLE = frozenset({"int2", "int4", "int8"})
JSON = frozenset({"json", "jsonb"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column. ``type_schema`` and ``type_name`` name its type, ``base`` the same with domains resolved, for people ``shown``.

    ``length`` is that of a varchar(n), ``scale`` the digits of a second that a timestamp(n) keeps; ``labels`` are an enum's.
    ``readable`` and ``writable`` are our role's rights to SELECT and UPDATE it.
    """

    name: str
    type_schema: str = "pg_catalog"
    type_name: str
    base: str
    shown: str = ""
    length: int | None = None
    scale: int | None = None
    labels: tuple[str, ...] = ()
    not_null: bool = False
    has_default: bool = False
    generated: bool = False
    readable: bool = True
    writable: bool = True

    @property
    def naive(self) -> bool:
        """A timestamp without zone, which is taken to hold UTC, as Prisma writes it."""
        return self.base in ("timestamp", "date")

    @property
    def is_time(self) -> bool:
        return self.base in ("timestamp", "timestamptz")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIndex:
    """``columns`` in their order, "" for an expression; ``predicate`` as the database writes it, or None."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    valid: bool = True
    predicate: str | None = None
    method: str = "btree"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrigger:
    """``on_update``: fires when a row is updated; ``columns``: only where one of these is set, none for any."""

    name: str
    function: str
    on_update: bool
    columns: tuple[str, ...] = ()
    before: bool = False
    per_row: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Who we are in this database and how it stands. ``pooled``: two statements came from two server processes;
    ``durable``: a commit is answered once it is on the disk."""

    role: str
    superuser: bool = False
    bypasses_row_security: bool = False
    standby: bool = False
    read_only: bool = False
    replication_role: str = "origin"
    pooled: bool = False
    time_zone: str = "UTC"
    isolation: str = "read committed"
    durable: bool = True
    encoding: str = "UTF8"
    version: int = 150000
    soloist_schema: bool = True
    missing_rights: tuple[str, ...] = ()
    """Rights in the schema soloist that our role lacks, as ``INSERT ON soloist.claims``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """``kind`` is pg_class.relkind: r a table, p a partitioned one, v a view …; ``rows`` is the planner's estimate.

    ``inherited``: a plain table whose rows include those of others that inherit from it.
    """

    session: Session
    kind: str | None = None
    owner: str = ""
    owned: bool = False
    schema_usable: bool = True
    row_security: bool = False
    row_security_forced: bool = False
    rows: float = -1
    fillfactor: int = 100
    inherited: bool = False
    columns: Mapping[str, TableColumn] = field(default_factory=dict)
    indexes: tuple[TableIndex, ...] = ()
    triggers: tuple[TableTrigger, ...] = ()
    similar_tables: tuple[str, ...] = ()

    @property
    def filtered(self) -> bool:
        """Whether row-level security applies to our role."""
        exempt = (
            self.session.superuser
            or self.session.bypasses_row_security
            or (self.owned and not self.row_security_forced)
        )
        return self.row_security and not exempt
