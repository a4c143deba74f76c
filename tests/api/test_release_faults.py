"""The parent's release of a dead child's Lease, where the real API server, or what lies before it, answers otherwise."""

from __future__ import annotations

import functools
import json
import os
import signal
from pathlib import Path

import pytest

from soloist.domain.lease_bodies import held_body, new_lease
from tests.api.account import REST, RUNS, Account, start_as
from tests.api.crew import Controller, Crew
from tests.api.desk import LONG
from tests.api.tending import now
from tests.api.test_parent import lead, released, said
from tests.cluster.faults import BAD_GATEWAY, INTERNAL, TOO_MANY, UNAVAILABLE, DropReply
from tests.cluster.https_proxy import HttpsProxy
from tests.shells.parents import Parent
from tests.shells.test_release import CONNECTION, HOLDS, WAITS
from tests.shells.test_release import outcome as told_by

pytestmark = pytest.mark.cluster

LEASE = r"/leases/soloist$"
KEPT, GONE = "lease not released: it runs out by itself", "lease of the dead child"


def frozen(member: Controller) -> Controller:
    """None of its own renewals meets what is there for the release."""
    os.kill(member.child(), signal.SIGSTOP)
    return member


def outcome(crew: Crew, member: Controller, message: str) -> str:
    return str(crew.wait(lambda: said(member, message), what=f"the parent says {message!r}")[0]["outcome"])


def test_an_answer_that_may_get_better_is_asked_for_again(crew: Crew, https_proxy: HttpsProxy) -> None:
    crew.server = https_proxy.server
    leader = frozen(lead(crew, "a", **LONG))
    answers = [https_proxy.on("*", LEASE, each, times=1) for each in (TOO_MANY, INTERNAL, BAD_GATEWAY, UNAVAILABLE)]
    leader.kill_child()
    assert outcome(crew, leader, GONE) == "released"
    assert [len(rule.caught) for rule in answers] == [1, 1, 1, 1]
    assert released(crew)


def test_a_release_whose_answer_is_lost_is_found_to_be_done(crew: Crew, https_proxy: HttpsProxy) -> None:
    crew.server = https_proxy.server
    leader = frozen(lead(crew, "a", **LONG))
    lost = https_proxy.on("PUT", LEASE, DropReply(), times=1)
    leader.kill_child()
    assert outcome(crew, leader, GONE) == "not its own any more"
    assert len(lost.caught) == 1
    assert released(crew)


def test_a_token_that_was_revoked_is_read_anew_from_its_file(
    crew: Crew, account: Account, https_proxy: HttpsProxy, tmp_path: Path
) -> None:
    body = held_body(
        new_lease(crew.namespace.name, "soloist"), holder="pod/1", nonce="n1", epoch=5, renew_time=now(), lease=60, ends={},
        pod=None,
    )  # fmt: skip
    made = crew.cluster.api().create(crew.namespace.path("leases", group="coordination.k8s.io"), body)
    authority = str(crew.cluster.authority.ca.certificate)
    facts = {"server": https_proxy.server, "caFile": authority, "tokenFile": str(account.file)}
    known = {"lease-uid": made["metadata"]["uid"], '"ns"': f'"{crew.namespace.name}"', CONNECTION: json.dumps(facts)}
    holds = functools.reduce(lambda text, each: text.replace(*each), known.items(), HOLDS)
    parent = Parent(holds + WAITS, tmp_path, as_pid_1=False)
    try:
        parent.wait_for("holds")
        account.revoke(*account.current)
        os.kill(parent.child(), signal.SIGKILL)
        crew.wait(lambda: https_proxy.seen, what="the parent has asked with the old token")
        account.rotate()
        assert parent.ended() == 137
    finally:
        parent.close()
    assert told_by(parent, GONE)["outcome"] == "released"
    assert released(crew)
    assert len(https_proxy.seen) > 2, "it was refused before"


def test_a_right_that_is_missing_is_said_and_ends_it(crew: Crew, account: Account) -> None:
    leader = start_as(crew, account, "a", **LONG)
    crew.wait(lambda: said(leader, "leading"), what="it leads")
    frozen(leader)
    account.may(crew.namespace.name, [RUNS, *(rule for rule in REST if "leases" not in rule["resources"])])
    api, path = (
        crew.cluster.api(token=account.token),
        crew.namespace.path("leases", "soloist", group="coordination.k8s.io"),
    )
    crew.wait(lambda: api.raw("GET", path)[0] == 403, what="it may not read the Lease")
    leader.kill_child()
    assert outcome(crew, leader, KEPT) == "the answer was 403"
    assert crew.holder() == "a"
