"""Manifests that change under running replicas."""

from __future__ import annotations

import pytest

from tests.cluster.children import until
from tests.standalone.crew import STEADY, Crew, job

pytestmark = pytest.mark.slow
REFUSED = "soloist.dev/refused"


def test_an_edit_holds_from_then_on_and_no_tick_is_lost_or_twice(crew: Crew) -> None:
    crew.env = dict(STEADY)
    plain = {"schedule": "@every 1s", "concurrencyPolicy": "Allow", "timeoutSeconds": 60}
    crew.write("jobs.yaml", crew.job("sweep", **plain))
    crew.start("a")
    crew.backend.wait(3, path="/sweep", timeout=120)
    for body in ("one", "two", "three"):
        spec = crew.job("sweep", **plain)
        spec["spec"]["http"]["body"] = body
        crew.write("jobs.yaml", spec)
        crew.backend.wait(2, path="/sweep", when=lambda seen, body=body: seen.body == body, timeout=120)
    page = crew.audit("sweep")
    assert not page.gaps
    stored = crew.stored("sweep")
    assert stored is not None
    assert stored["metadata"]["generation"] == 4


def test_a_broken_file_keeps_its_jobs_as_they_were_and_says_why_also_to_the_next_process(crew: Crew) -> None:
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    crew.write("other.yaml", crew.job("other", schedule="@every 1s"))
    first = crew.start("a")
    crew.backend.wait(2, path="/sweep", timeout=120)
    (crew.files / "jobs.yaml").write_text("half: [a")
    until(lambda: reason(crew, "sweep"), what="the job says why", timeout=120)
    assert "cannot be read as YAML" in reason(crew, "sweep")
    assert reason(crew, "other") == ""
    first.terminate()
    until(lambda: not first.process.alive(), what="it has ended", timeout=120)
    crew.start("b")
    crew.backend.wait(len(crew.backend.received("/sweep")) + 2, path="/sweep", timeout=120)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s", jitterSeconds=0, suspend=True))
    until(lambda: reason(crew, "sweep") == "", what="the reason is gone once it is mended", timeout=120)
    (crew.files / "jobs.yaml").unlink()
    until(lambda: crew.stored("sweep") is None, what="a job whose file is gone is gone", timeout=120)


def test_a_spec_that_cannot_be_used_changes_nothing_where_there_was_one_that_could(crew: Crew) -> None:
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"), job("never", schedule="0 2 31 2 *", http={"url": "http://x/"}))  # fmt: skip
    crew.start("a")
    crew.backend.wait(2, path="/sweep", timeout=120)
    until(lambda: invalid(crew, "never"), what="what was never good says so", timeout=120)
    crew.write("jobs.yaml", crew.job("sweep", schedule="every second"))
    until(lambda: "spec.schedule" in reason(crew, "sweep"), what="the job says what is wrong", timeout=120)
    crew.backend.wait(len(crew.backend.received("/sweep")) + 2, path="/sweep", timeout=120)
    stored = crew.stored("sweep")
    assert stored is not None
    assert stored["spec"]["schedule"] == "@every 1s"


def test_of_two_replicas_with_different_files_the_leaders_hold_and_the_other_says_so(crew: Crew) -> None:
    crew.env = dict(STEADY)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    crew.write("jobs.yaml", crew.job("other", schedule="@every 1s"), folder="others")
    crew.start("a")
    crew.backend.wait(1, path="/sweep", timeout=120)
    crew.start("b", folder="others")
    assert crew.hear("b", "files differ")["in_effect"].startswith("a-")
    seen = crew.stored("sweep")
    crew.backend.wait(len(crew.backend.received("/sweep")) + 3, path="/sweep", timeout=120)
    assert crew.backend.received("/other") == []
    after = crew.stored("sweep")
    assert seen is not None
    assert after is not None
    assert [after["metadata"][key] for key in ("uid", "generation")] == [seen["metadata"][key] for key in ("uid", "generation")]  # fmt: skip
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"), folder="others")
    crew.hear("b", "files agree")
    assert len(crew.said("b", "files differ")) == 1
    assert len(crew.said("a", "files are in effect")) == 1, "nothing was undone and done again"


def reason(crew: Crew, name: str) -> str:
    stored = crew.stored(name)
    return str((stored or {}).get("metadata", {}).get("annotations", {}).get(REFUSED, ""))


def invalid(crew: Crew, name: str) -> bool:
    conditions = ((crew.stored(name) or {}).get("status") or {}).get("conditions") or []
    return any((each["type"], each["status"]) == ("Valid", "False") for each in conditions)
