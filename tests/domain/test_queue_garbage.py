"""No JSON whatever makes ``parse_queue`` raise, and each refusal is a sentence that names its field."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.queue_parsing import Invalid, parse_queue
from soloist.domain.queue_spec import MappedTable, QueueSpec
from tests.domain.test_queue_parsing import GOOD, MAPPED, TABLE, URL
from tests.domain.test_spec_garbage import places, put

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(
        ["http", "5s", "id", "Handler", "Inline", "Hold", "PerDue", "{key}", "{a_b}", "2xx", URL, "a.b", ":id", "None"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "key", "column", "sql", "url", "http", "table", "external"]) | st.text(max_size=5),
            inner,
        )
    ),
    max_leaves=8,
)


@given(JSON)
def test_nothing_makes_it_raise(raw: Any) -> None:
    is_a_sentence_or_a_spec(parse_queue(raw))


@given(st.data(), JSON)
def test_nothing_in_any_place_of_a_good_spec_makes_it_raise(data: st.DataObject, poison: Any) -> None:
    base = data.draw(st.sampled_from(GOOD))
    place = data.draw(st.sampled_from(sorted(places(base))))
    is_a_sentence_or_a_spec(parse_queue(put(base, place, poison)))


@given(st.text('abAB."$_1é \n', max_size=20))
def test_a_table_that_is_taken_is_read_back_as_the_same(name: str) -> None:
    spec = parse_queue({**MAPPED, "table": {**TABLE, "name": name}})
    is_a_sentence_or_a_spec(spec)
    if isinstance(spec, QueueSpec):
        assert isinstance(spec.table, MappedTable)
        again = parse_queue({**MAPPED, "table": {**TABLE, "name": str(spec.table.name)}})
        assert again == spec


def is_a_sentence_or_a_spec(spec: QueueSpec | Invalid) -> None:
    if isinstance(spec, QueueSpec):
        return
    assert spec.field.startswith("spec")
    assert spec.reason.isalnum()
    assert spec.message.startswith("spec")
    assert spec.message.endswith((".", "?"))
    assert len(spec.message) < 600
