"""Arrays go to the server as literals: whatever text is in them, it is the same there."""

from __future__ import annotations

import psycopg
from hypothesis import given, settings
from hypothesis import strategies as st

from soloist.adapters.postgres.row_texts import array_of_numbers, array_of_texts
from tests.postgres.server import Postgres

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
ODD = st.sampled_from(
    ["", "NULL", "null", "{}", '"', "\\", '\\"', "a,b", " a ", "\n", '{"a"}', "%s", "é", "\U0001f600"]
)


def test_every_text_arrives_as_it_was(postgres: Postgres) -> None:
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:

        @settings(max_examples=200, deadline=None)
        @given(st.lists(TEXT | ODD | st.none(), max_size=20))
        def arrives(texts: list[str | None]) -> None:
            row = connection.execute("SELECT %s::pg_catalog.text[]", (array_of_texts(texts),)).fetchone()
            assert row == (texts,)

        arrives()
        numbers = [1, -5, 2**63 - 1]
        row = connection.execute("SELECT %s::pg_catalog.int8[]", (array_of_numbers(numbers),)).fetchone()
        assert row == (numbers,)
