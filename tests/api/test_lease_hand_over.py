"""How leadership passes on: by release, by evidence, by the kubelet's word; on the real Lease API."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from soloist.adapters.clock import SystemClock
from soloist.domain.holder_pod import HolderPod
from soloist.domain.term import Timing
from tests.api.electors import TIMING, Replica
from tests.api.going_on import let_pass
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace

pytestmark = pytest.mark.cluster

SOON = 60.0
SLOW = Timing(lease=30, period=9, margin=3)
"""Who waits for a period or for a lease here is seen to have waited, however busy the machine is."""
STEADY = Timing(lease=5, period=0.5, margin=0.6)
CLOCK = SystemClock()


def test_a_hand_over_by_release_takes_no_wait(control_plane: ControlPlane, tmp_path: Path) -> None:
    lease, config = f"row-{uuid.uuid4().hex[:8]}", control_plane.kubeconfig(tmp_path / "kc")
    first = Replica("a", config, lease, timing=SLOW).start()
    assert first.elected.wait(SOON)
    standby = Replica("b", config, lease, timing=SLOW).start()
    assert standby.watching.wait(SOON)
    before = CLOCK.boottime()
    first.stop()
    assert standby.elected.wait(SOON)
    assert standby.elected_at - before < SLOW.period, "it heard of it by its next reading, and not by its watch"
    assert standby.terms[0].past_ends[first.terms[-1].epoch] >= first.terms[-1].renew_time
    standby.stop()


def annotate(**annotations: str | None) -> dict[str, object]:
    return {"metadata": {"annotations": {f"soloist.dev/{key}": value for key, value in annotations.items()}}}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (None, "LeaseDeleted"),
        ({"spec": {"holderIdentity": ""}}, "LeaseBlanked"),
        ({"spec": {"holderIdentity": "kubectl"}}, "HolderChanged"),
        ({"spec": {"holderIdentity": "kubectl", "leaseDurationSeconds": 1}}, "HolderChanged"),
        (annotate(nonce="another"), "TwinDetected"),
    ],
    ids=["deleted", "blanked", "taken", "taken for a second", "a twin"],
)
def test_a_leader_that_reads_that_it_lost_stops_at_once_and_the_next_one_waits_a_lease(
    namespace: Namespace, tmp_path: Path, change: dict[str, object] | None, reason: str
) -> None:
    config = namespace.cluster.kubeconfig(tmp_path / "kc")
    path = namespace.path("leases", "l", group="coordination.k8s.io")
    first = Replica("a", config, "l", namespace=namespace.name, timing=STEADY).start()
    assert first.elected.wait(SOON)
    standby = Replica("b", config, "l", namespace=namespace.name, timing=STEADY).start()
    assert standby.watching.wait(SOON)
    let_pass(2 * STEADY.period)
    changed_at = CLOCK.boottime()
    namespace.api.delete(path) if change is None else namespace.api.patch(path, change)
    changed_by = CLOCK.boottime()
    assert first.lost.wait(SOON)
    assert first.reason.startswith(reason)
    assert first.trusted_until <= changed_by + STEADY.trust, "it renewed once more after that"
    assert first.elector.term() is None
    assert standby.elected.wait(SOON)
    assert first.lost_at < standby.terms[0].started_boot
    assert standby.terms[0].started_boot - changed_at >= STEADY.lease
    assert standby.terms[0].epoch > first.terms[-1].epoch
    standby.stop()
    first.stop()


def test_the_kubelets_word_hands_over_without_a_wait_and_a_missing_pod_does_not(
    namespace: Namespace, tmp_path: Path
) -> None:
    config, api = namespace.cluster.kubeconfig(tmp_path / "kc"), namespace.api
    until(lambda: api.find(namespace.path("serviceaccounts", "default")), what="the service account", timeout=SOON)
    container = {"name": "c", "image": "none.invalid/none"}
    pod = api.create(namespace.path("pods"), {"metadata": {"name": "a"}, "spec": {"containers": [container]}})
    own = HolderPod(namespace=namespace.name, name="a", uid=pod["metadata"]["uid"], container_id="containerd://1")
    first = Replica("a", config, "l", namespace=namespace.name, own=own, timing=SLOW).start()
    assert first.elected.wait(SOON)
    standby = Replica("b", config, "l", namespace=namespace.name, timing=SLOW).start()
    assert standby.watching.wait(SOON)
    drop_dead(first)
    for container_id in ("containerd://0", "containerd://1"):
        assert not standby.elected.wait(2.5)
        ended = {"exitCode": 137, "containerID": container_id}
        status = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 1}
        status |= {"state": {"waiting": {}}, "lastState": {"terminated": ended}}
        patched_at = CLOCK.boottime()
        api.patch(namespace.path("pods", "a") + "/status", {"status": {"containerStatuses": [status]}})
    assert standby.elected.wait(SOON)
    assert standby.elected_at - patched_at < SLOW.period
    assert standby.terms[0].past_ends[first.terms[-1].epoch] == first.terms[-1].renew_time + timedelta(seconds=27)
    standby.stop()


def drop_dead(replica: Replica) -> None:
    """As if its process were killed: no step more, and nothing given back."""
    replica.elector.step = lambda: time.sleep(3600)  # type: ignore[method-assign]
    replica.watches.stop()
    let_pass(TIMING.period)


def test_a_hand_over_by_a_stop_in_mid_run_waits_for_the_run(control_plane: ControlPlane, tmp_path: Path) -> None:
    lease, config = f"row-{uuid.uuid4().hex[:8]}", control_plane.kubeconfig(tmp_path / "kc")
    timing = Timing(lease=9, period=0.5, margin=1)
    first = Replica("a", config, lease, timing=timing).start()
    assert first.elected.wait(SOON)
    standby = Replica("b", config, lease, timing=timing).start()
    assert standby.watching.wait(SOON)
    drained = threading.Event()
    first.elector.stop(drained)
    assert not standby.elected.wait(timing.lease + 2)
    assert first.elector.term() is not None
    last = first.terms[-1]
    drained.set()
    assert standby.elected.wait(SOON)
    assert standby.elected_at < last.renew_sent_boot + timing.lease, "it waited for the lease to run out"
    standby.stop()
    first.stop()
