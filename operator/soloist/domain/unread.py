"""Fields of a spec that nobody reads: a wrong letter, most likely, where no API server looks at the schema.

Found out by reading: the spec is parsed once more from a copy that notes which of its names were asked for, so what counts
as a field is what the parser knows, and no list of fields has to be kept beside it. What is read as a whole (a payload, a
template of parameters) has been asked for in all its names.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from soloist.domain.spec_fields import Invalid

UNKNOWN = "FieldUnknown"


class _Noted(dict[str, Any]):
    """A mapping that remembers what it was asked for; so do the mappings in it."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        super().__init__({name: _noted(value) for name, value in raw.items()})
        self.asked: set[str] = set()
        self.whole = False

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        self.whole = True
        return super().__iter__()

    def keys(self) -> Any:
        self.whole = True
        return super().keys()

    def items(self) -> Any:
        self.whole = True
        return super().items()

    def values(self) -> Any:
        self.whole = True
        return super().values()


def _noted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Noted(value)
    return [_noted(each) for each in value] if isinstance(value, list) else value


def unread(raw: Mapping[str, Any], parse: Callable[[Mapping[str, Any]], object]) -> Invalid | None:
    """The first field that ``parse`` has no use for; None where there is none."""
    copy = _Noted(raw)
    parse(copy)
    return next(_unread(copy, "spec"), None)


def _unread(noted: _Noted, path: str) -> Iterator[Invalid]:
    for name in [] if noted.whole else sorted(set(dict.keys(noted)) - noted.asked):
        near = difflib.get_close_matches(str(name), noted.asked, n=1, cutoff=0.6)
        remedy = f"write {path}.{near[0]}" if near else "remove it"
        message = f"{path}.{name} is no field that is of use here: {remedy}."
        yield Invalid(field=f"{path}.{name}", reason=UNKNOWN, message=message)
    for name, value in dict.items(noted):
        inside = value if isinstance(value, list) else [value]
        for number, each in enumerate(inside):
            if isinstance(each, _Noted) and not noted.whole:
                yield from _unread(each, f"{path}.{name}[{number}]" if isinstance(value, list) else f"{path}.{name}")
