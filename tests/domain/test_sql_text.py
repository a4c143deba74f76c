"""Named parameters in a statement: what is one, what is not, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.sql_text import Numbered, Unreadable, is_name, numbered

LEFT_ALONE = [
    "SELECT 'it''s :a'",
    "SELECT E'it\\'s :a', e'\\\\', ':a'",
    'SELECT 1 AS ":a ""b"""',
    "SELECT $$ :a ' $$, $tag$ $$ :a $tag$, $t_1$:a$t_1$",
    "SELECT 1 -- :a it's",
    "SELECT 1 /* :a /* :a */ it's :a */",
    "SELECT '1'::int, make_interval(days := 1), now()::date::text",
    "SELECT (ARRAY[1, 2, 3])[1:n] FROM t",
    "SELECT foo$1 FROM t; -- the end",
    "SELECT 'U&', U&'\\0061:a', x'1f'",
    "SELECT nom_élevé, prefix'x' FROM \"Ünique\" ;\n\n ; /* nothing */",
    "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END",
    "DO $$ BEGIN COMMIT; END $$",
]


@pytest.mark.parametrize("statement", LEFT_ALONE)
def test_what_is_quoted_commented_or_a_cast_is_no_parameter(statement: str) -> None:
    assert numbered(statement, {"x"}) == Numbered(text=statement, names=())


@pytest.mark.parametrize(
    ("statement", "text", "names"),
    [
        ("SELECT :a, :b, :a", "SELECT $1, $2, $1", ("a", "b")),
        ("SELECT :a::text", "SELECT $1::text", ("a",)),
        ("SELECT ':a' || :a", "SELECT ':a' || $1", ("a",)),
        ("SELECT f(x := :a)", "SELECT f(x := $1)", ("a",)),
        ("SELECT x[1:a]", "SELECT x[1$1]", ("a",)),
        ("SELECT 1=:a", "SELECT 1=$1", ("a",)),
        ("SELECT typee':a', :a", "SELECT typee':a', $1", ("a",)),
        ("SELECT $$:a$$, :a;", "SELECT $$:a$$, $1;", ("a",)),
    ],
)
def test_a_name_becomes_a_number_wherever_it_stands(statement: str, text: str, names: tuple[str, ...]) -> None:
    assert numbered(statement, {"a", "b"}) == Numbered(text=text, names=names)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT :nope", "names :nope, which is not among its parameters"),
        ("SELECT $1", "named parameters"),
        ("SELECT 'open", "not closed"),
        ('SELECT "open', "not closed"),
        ("SELECT $$ open", "not closed"),
        ("SELECT $t$ open $$", "not closed"),
        ("SELECT 1 /* /* */", "comment that is not closed"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SELECT 1; :a", "more than one statement"),
        ("", "no statement"),
        (" ; -- nothing", "no statement"),
        ("commit", "begins with COMMIT"),
        ("/* a */ Rollback and chain", "begins with ROLLBACK"),
        ("BEGIN", "begins with BEGIN"),
        ("PREPARE TRANSACTION 'x'", "begins with PREPARE"),
        ("set search_path = x", "begins with SET; connections are shared"),
        ("SELECT '\0'", "NUL"),
    ],
)
def test_what_could_be_read_in_two_ways_or_ends_the_transaction_is_refused(statement: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        numbered(statement, {"a"})


@given(st.text("abE':\"$-/* \n;[]_\\é:", max_size=30))
def test_whatever_is_written_is_read_or_refused_and_but_for_names_left_as_it_is(statement: str) -> None:
    try:
        read = numbered(statement, {"a"})
    except Unreadable:
        return
    assert read.names in ((), ("a",))
    assert read.text.replace("$1", ":a") == statement


def test_a_long_statement_is_read_in_time() -> None:
    """Each of these would take minutes if something were looked for again and again."""
    for piece in ("'", "$$", "/*", "''", "$a", "E'\\", '"', "--", ":a "):
        try:
            numbered("SELECT " + piece * (65536 // len(piece)), {"a"})
        except Unreadable:
            continue


@pytest.mark.parametrize(("name", "good"), [("a", True), ("_A9", True), ("9a", False), ("a-b", False), ("", False)])
def test_a_parameters_name_is_a_word(name: str, good: bool) -> None:
    assert is_name(name) is good
