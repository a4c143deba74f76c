"""What is known only goes forward, whoever tells it, and a list takes away only what it could have named."""

from typing import Any

from soloist.loops.cache import Cache
from soloist.ports import Listing

KEY = ("shop", "sweep")


def a_job(version: int, *, uid: str = "u", name: str = "sweep", **status: Any) -> dict[str, Any]:
    meta = {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": str(version)}
    spec = {"schedule": "* * * * *", "http": {"url": "http://backend/"}}
    return {"metadata": meta, "spec": spec, "status": status}


def a_run(version: int, *, uid: str = "r1", name: str = "run-1", phase: str = "Pending") -> dict[str, Any]:
    meta = {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"scheduledJobName": "sweep"}, "status": {"phase": phase}}


def version_of(cache: Cache) -> str:
    job = cache.job(KEY)
    assert job is not None
    return job.resource_version


def test_an_older_version_never_replaces_a_newer_one() -> None:
    """argo #12625."""
    cache = Cache()
    assert cache.put_job(a_job(9)) == {KEY}
    assert cache.put_job(a_job(8)) == set()
    assert version_of(cache) == "9"
    assert cache.put_job(a_job(10)) == {KEY}
    assert version_of(cache) == "10"


def test_versions_are_compared_as_numbers() -> None:
    cache = Cache()
    cache.put_run(a_run(99))
    cache.put_run(a_run(100, phase="Succeeded"))
    assert cache.runs(KEY)[0].phase == "Succeeded"


def test_a_list_removes_what_it_does_not_name() -> None:
    cache = Cache()
    cache.put_job(a_job(5))
    cache.put_run(a_run(6))
    assert cache.relist_jobs(Listing(items=[], resource_version="7")) == {KEY}
    assert cache.relist_runs(Listing(items=[], resource_version="7")) == {KEY}
    assert (len(cache), cache.runs(KEY)) == (0, ())


def test_a_list_never_removes_what_is_newer_than_itself() -> None:
    """The reply to an own create may overtake a list that was taken before it."""
    cache = Cache()
    cache.put_run(a_run(8))
    assert cache.relist_runs(Listing(items=[], resource_version="7")) == set()
    assert len(cache.runs(KEY)) == 1


def test_the_deletion_of_a_namesake_removes_nothing() -> None:
    cache = Cache()
    cache.put_job(a_job(5, uid="second"))
    cache.put_run(a_run(6, uid="second"))
    assert cache.drop_job("shop", "sweep", uid="first") == set()
    assert cache.drop_run(KEY, "run-1", uid="first") == set()
    assert (len(cache), len(cache.runs(KEY))) == (1, 1)


def test_the_terms_of_recorded_runs_are_remembered() -> None:
    cache = Cache()
    cache.put_job(a_job(5, active=[{"run": "run-1", "uid": "r1", "epoch": 41}]))
    cache.put_job(a_job(6, name="other", uid="v", active=[{"run": "run-2", "uid": "r2", "epoch": 42}]))
    assert cache.epochs() == {41, 42}


def test_where_the_store_has_lost_writes_what_is_known_goes_on_under_the_version_that_is_there() -> None:
    """A database that failed over to a standby which was behind: else each write would be forestalled for ever."""
    cache = Cache()
    cache.put_job(a_job(9, watermark="2026-03-01T02:00:00Z"))
    cache.put_run(a_run(8, phase="Running"))
    known, run = cache.job(KEY), cache.runs(KEY)[0]
    cache.put_back(a_job(5, watermark="2026-03-01T01:00:00Z"), known)
    cache.put_back(a_run(4), run)
    job = cache.job(KEY)
    assert job is not None
    assert (job.resource_version, job.status) == ("5", {"watermark": "2026-03-01T02:00:00Z"})
    assert (cache.runs(KEY)[0].resource_version, cache.runs(KEY)[0].phase) == ("4", "Running")


def test_an_answer_that_was_overtaken_or_is_of_another_object_is_no_lost_write() -> None:
    cache = Cache()
    cache.put_job(a_job(5))
    asked_with = cache.job(KEY)
    cache.put_job(a_job(9))
    cache.put_back(a_job(5), asked_with)
    assert version_of(cache) == "9"
    cache.put_back(a_job(4), asked_with)
    cache.put_back(a_job(4, uid="other"), cache.job(KEY))
    assert version_of(cache) == "9"
