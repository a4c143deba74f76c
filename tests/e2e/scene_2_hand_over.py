"""The leader is killed in every way that a cluster knows. No tick comes twice; how long nobody led is printed."""

from __future__ import annotations

import os

import pytest

from tests.e2e.site import NAMESPACE, Site

LEASE = 10.0
"""Seconds; what a hand-over takes at the most where nobody can tell that the leader is dead. Renewals are 2 s apart."""


def on_this_machine(seconds: float) -> float:
    """What that may take where so many processes wait for each core; never so long that the Lease could have run out instead."""
    return min(LEASE / 2, seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


@pytest.fixture(autouse=True)
def audited(site: Site):  # type: ignore[no-untyped-def]
    yield
    site.audit()


def test_its_child_killed(site: Site) -> None:
    assert site.handed_over("child killed", site.kill_child) < LEASE / 2


def test_its_container_killed(site: Site) -> None:
    """By the kubelet's evidence: nothing in the container is left to give the Lease back."""
    assert site.handed_over("container killed", site.kill_container) <= on_this_machine(2)


def test_its_pod_deleted_by_force(site: Site) -> None:
    def delete(pod: str) -> None:
        site.node.kubectl("-n", NAMESPACE, "delete", "pod", pod, "--force", "--grace-period=0")

    assert site.handed_over("Pod deleted by force", delete) < 2 * LEASE


def test_its_pod_deleted_gracefully(site: Site) -> None:
    def delete(pod: str) -> None:
        site.node.kubectl("-n", NAMESPACE, "delete", "pod", pod, "--wait=false")

    assert site.handed_over("Pod deleted gracefully", delete) < LEASE / 2


def test_the_kubelet_stopped_and_the_container_killed(site: Site) -> None:
    """Nobody can tell that it is dead, so its Lease has to run out."""

    def kill(pod: str) -> None:
        site.node.pause_kubelet(NAMESPACE, pod)
        site.kill_container(pod)

    try:
        assert site.handed_over("kubelet stopped, container killed", kill) < 3 * LEASE
    finally:
        site.node.resume_kubelet()
    site.wait_ready("controller", 2)
