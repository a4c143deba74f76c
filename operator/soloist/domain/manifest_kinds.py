"""Whose a document of a file is: ours, somebody else's, or meant to be ours, which is a mistake that says what to write.

What is somebody else's is passed over, and a job that is in no file any more is removed with its runs; so a wrong letter in
``kind`` or ``apiVersion`` must not make a job somebody else's. Mistaken is therefore what is near one of our kinds, what has
our kind and not our group or our group and not our kind, and a spec without any kind.
"""

from collections.abc import Collection, Mapping
from typing import Any

from soloist.domain.spec_fields import shown

GROUP, VERSION = "soloist.dev", "soloist.dev/v1alpha1"
OURS, RUN = ("ScheduledJob", "WorkQueue"), "JobRun"
LIST = "List"
CORE, CORE_VERSIONS = ("Secret", "ConfigMap", LIST), ("", "v1")
EITHER = " or ".join(OURS)
ELSEWHERE = "or keep it in another folder, if it is not Soloist's"


def is_used(document: Mapping[str, Any], kinds: Collection[str]) -> bool:
    """Of one without a mistake: whether it is of those kinds, and not of another group's kind that is called the same."""
    kind, version = document.get("kind"), _version(document)
    return isinstance(kind, str) and kind in kinds and (kind in OURS or version in CORE_VERSIONS)


def mistake(document: Mapping[str, Any], kinds: Collection[str]) -> str | None:
    """A sentence that says what to write instead; None where it is one of ``kinds``, or somebody else's."""
    kind, version = document.get("kind"), _version(document)
    in_group = version.partition("/")[0].casefold() == GROUP
    if not isinstance(kind, str) or not kind:
        return f"there is no kind: write kind: {EITHER}." if "spec" in document or in_group else None
    if kind in OURS:
        return _of_another_version(kind, version) if kind in kinds and version != VERSION else None
    if kind in CORE:
        return f"a {kind} is not of {shown(version)}: write apiVersion: v1." if in_group and kind in kinds else None
    if in_group and kind == RUN:
        return None
    if in_group and kind in [each + LIST for each in (*OURS, RUN)]:
        return f"kind {shown(kind)} is not known here: write kind: {LIST} and apiVersion: v1."
    core = [each for each in CORE if each in kinds or each == LIST] if version in CORE_VERSIONS or in_group else []
    mine = [*OURS, RUN] if in_group else [each for each in OURS if each in kinds]
    near = next((each for each in (*mine, *core) if _is_near(kind, each)), None)
    if near is None and not in_group:
        return None
    foreign = not in_group and version not in CORE_VERSIONS
    more = f" and apiVersion: {VERSION}, {ELSEWHERE}" if foreign else ""
    return f"kind {shown(kind)} is not known here: write {near or EITHER}{more}."


def _version(document: Mapping[str, Any]) -> str:
    return str(document.get("apiVersion") or "")


def _of_another_version(kind: str, version: str) -> str:
    if not version:
        return f"a {kind} has no apiVersion: write apiVersion: {VERSION}."
    more = "" if version.startswith(f"{GROUP}/") else f", {ELSEWHERE}"
    return f"apiVersion {shown(version)} is not known here: write {VERSION}{more}."


def _is_near(one: str, other: str) -> bool:
    """Whatever the case, two letters off, or one where there are few: other names are that near to a short one by chance."""
    most = min(2, len(other) // 4)
    return abs(len(one) - len(other)) <= most and _letters_off(one.casefold(), other.casefold()) <= most


def _letters_off(one: str, other: str) -> int:
    """How many letters are too many, missing, wrong, or changed places with the next."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        here = [row]
        for column, wanted in enumerate(other, 1):
            least = min(above[column] + 1, here[-1] + 1, above[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and (letter, one[row - 2]) == (other[column - 2], wanted):
                least = min(least, before[column - 2] + 1)
            here.append(least)
        before, above = above, here
    return above[-1]
