"""Where a walk along the due rows ended that passed over a great many, in use, given up or resting."""

from psycopg import sql
from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW, Name, iso, moment
from soloist.adapters.postgres.mapped_sql import Shape
from soloist.domain.mapping_index import MANY


def passed(shape: Shape, due_at: str) -> Composable:
    """Gives a due time: ``%(last)s``, that of the last row that was claimed, but no later than ``%(ago)s`` ago. Gives none where
    few rows were due before: whatever took long, it was not they."""
    then = moment(SQL("({} - %(ago)s)").format(NOW), shape.columns[due_at])
    some = [
        SQL("(SELECT count(*) FROM (SELECT FROM {} AS q WHERE {} AND {} <= {} LIMIT {}) AS c)").format(
            shape.relation, status, Name("q", due_at), then, sql.Literal(MANY)
        )
        for status in shape.statuses("q")
    ]
    return SQL(
        "SELECT {due} FROM (SELECT least({now} - %(ago)s, %(last)s::pg_catalog.timestamptz) AS due) AS d WHERE {some} >= {many}"
    ).format(due=iso(SQL("d.due")), now=NOW, some=SQL(" + ").join(some), many=sql.Literal(MANY))
