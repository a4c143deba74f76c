"""Alarms: one a key, the earliest first, the last one set is the one that counts."""

from hypothesis import given
from hypothesis import strategies as st

from soloist.loops.alarm import Alarms


def test_an_alarm_comes_up_once() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.set("a", 2.0)
    assert (alarms.next(), alarms.due(1.9)) == (2.0, [])
    assert (alarms.due(2.0), alarms.due(9.0), alarms.next()) == (["a"], [], None)


def test_setting_it_again_moves_it_either_way() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.set("a", 2.0)
    alarms.set("a", 5.0)
    assert (alarms.next(), alarms.due(3.0)) == (5.0, [])
    alarms.set("a", 1.0)
    assert (alarms.next(), alarms.due(1.0), alarms.due(9.0)) == (1.0, ["a"], [])


def test_a_cleared_alarm_does_not_come_up() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.set("a", 1.0)
    alarms.clear("a")
    assert (alarms.next(), alarms.due(9.0)) == (None, [])


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 100))))
def test_they_come_up_in_order_each_at_what_was_set_last(settings: list[tuple[str, float]]) -> None:
    alarms: Alarms[str] = Alarms()
    for key, moment in settings:
        alarms.set(key, moment)
    wanted = sorted(dict(settings).items(), key=lambda pair: pair[1])
    seen = []
    while (moment := alarms.next()) is not None:
        seen += [(key, moment) for key in alarms.due(moment)]
    assert sorted(seen) == sorted(wanted)
    assert [moment for _, moment in seen] == [moment for _, moment in wanted]
