"""No JSON whatever makes ``parse_spec`` raise, and each refusal is a sentence that names its field."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.spec import Invalid, Spec, parse_spec
from tests.domain.test_spec import FULL, LEAST, TEMPLATE, TRANSACTIONS, URL

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(
        ["http", "0 2 * * *", "@every 1s", "UTC", "Retry", "{run}", "{", "2xx", URL, "http://[::1", "*", "L"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "key", "value", "spec", "url", "template"]) | st.text(max_size=5), inner
        )
    ),
    max_leaves=8,
)


@given(JSON)
def test_nothing_makes_it_raise(raw: Any) -> None:
    is_a_sentence_or_a_spec(parse_spec(raw))


@given(st.data(), JSON)
def test_nothing_in_any_place_of_a_good_spec_makes_it_raise(data: st.DataObject, poison: Any) -> None:
    base = data.draw(st.sampled_from([FULL, {"schedule": "@daily", "job": {"template": TEMPLATE}}, *TRANSACTIONS]))
    place = data.draw(st.sampled_from(sorted(places(base))))
    is_a_sentence_or_a_spec(parse_spec(put(base, place, poison)))


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_for_schedule_and_zone_makes_it_raise(schedule: str, zone: str) -> None:
    is_a_sentence_or_a_spec(parse_spec({**LEAST, "schedule": schedule, "timeZone": zone}))


@given(st.text("01259*/,-LW# @evrydhms", max_size=30))
def test_nothing_that_looks_like_a_schedule_makes_it_raise(schedule: str) -> None:
    is_a_sentence_or_a_spec(parse_spec({**LEAST, "schedule": schedule}))


def is_a_sentence_or_a_spec(spec: Spec | Invalid) -> None:
    if isinstance(spec, Spec):
        return
    assert spec.field.startswith("spec")
    assert spec.reason.isalnum()
    assert spec.message.startswith("spec")
    assert spec.message.endswith((".", "?"))
    assert len(spec.message) < 600


Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> dict[str, Place]:
    """Every place in ``value`` that may be replaced, by a name that sorts."""
    found = {repr(at): at} if at else {}
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        found |= places(child, (*at, name))
    return found


def put(value: Any, place: str, poison: Any) -> Any:
    return replaced(value, places(value)[place], poison)


def replaced(value: Any, at: Place, poison: Any) -> Any:
    if not at:
        return poison
    result = dict(value) if isinstance(value, dict) else list(value)
    result[at[0]] = replaced(value[at[0]], at[1:], poison)
    return result
