"""Which rows a claim would find and hand to nobody, in SQL: those whose attempts are used up, and those whose claims came to
nothing too often. ``MappedRows`` decides the same of a claim that it has.

They are given up in batches of their own (``burials``), by claims of nothing else: a row that can be worked is never
claimed beyond what was asked for.
"""

from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import Name
from soloist.adapters.postgres.mapped_sql import Shape
from soloist.domain.catalog import WHOLE


def used_up(shape: Shape, *, tried: Composable, crashes: Composable) -> Composable:
    """``tried``: attempts that count; ``crashes``: claims in a row that came to nothing, the last one among them. Takes
    ``%(limit)s``, ``%(hold)s`` and ``%(max_reclaims)s``."""
    return SQL(
        "({tried} >= {limit} OR {crashes} > CASE WHEN %(hold)s::pg_catalog.bool THEN 0 ELSE %(max_reclaims)s::pg_catalog.int4 END)"
    ).format(tried=tried, crashes=crashes, limit=_limit(shape))


def _limit(shape: Shape) -> Composable:
    """As ``most_attempts`` reads it: a column that holds no whole number says nothing."""
    given = SQL("%(limit)s::pg_catalog.int4")
    if shape.limit is None:
        return given
    column = Name("q", shape.limit)
    if shape.columns[shape.limit].base in WHOLE:
        return SQL("coalesce({}, {})").format(column, given)
    return SQL("CASE WHEN scale({0}) = 0 THEN {0} ELSE {1} END").format(column, given)
