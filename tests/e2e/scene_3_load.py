"""Workers are scaled while rows are delivered, by their CPU and by the depth of the queue, and all is upgraded while rows and ticks go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from soloist.domain.deletion_cost import ANNOTATION
from tests.cluster.children import until
from tests.e2e.site import NAMESPACE, PATIENCE, QUEUE, Site

ROWS, AT_UPGRADE, BATCH = 20_000, 4_000, 500


class Feed:
    """Enqueues numbered rows, never so many ahead of the workers that the load ends in one gulp."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name, self.count = site, name, 0

    def go_on_while(self, wanted: Callable[[], bool], *, timeout: float) -> None:
        def step() -> bool:
            with self.site.postgres.connect() as connection:
                waiting = connection.execute("SELECT count(*) FROM soloist.work_items").fetchone()
                if waiting is not None and waiting[0] < 2 * BATCH:
                    payloads = [f'{{"row": "{self.name} {self.count + each}"}}' for each in range(BATCH)]
                    connection.execute(
                        "SELECT soloist.enqueue_many(%s, %s::jsonb[])", (f"{NAMESPACE}/{QUEUE}", payloads)
                    )
                    self.count += BATCH
            return not wanted()

        until(step, what=f"the load {self.name} is over", timeout=timeout)

    def wait_delivered(self) -> None:
        """All are gone from the table, each was received, and none was accepted a second time."""
        with self.site.postgres.connect() as connection:
            until(
                lambda: connection.execute("SELECT count(*) = 0 FROM soloist.work_items").fetchone() == (True,),
                what="no row is left",
                timeout=3 * PATIENCE,
            )
            dead = connection.execute("SELECT count(*) FROM soloist.dead_items").fetchone()
        seen = [each for each in self.site.backend.received(f"/{QUEUE}") if f'"{self.name} ' in each.body]
        keys = Counter(each.header("Idempotency-Key") for each in seen)
        twice = {key: count for key, count in keys.items() if count > 1}
        bodies = {each.body for each in seen}
        self.site.tell(f"{self.name}: {self.count} rows, {len(bodies)} received, {len(twice)} of them more than once")
        assert len(bodies) == len(keys) == self.count
        assert not twice
        assert dead == (0,)


def replicas(site: Site) -> int:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/soloist-worker"
    return int(site.node.api().get(path).get("status", {}).get("readyReplicas", 0))


def costs(site: Site) -> set[str]:
    """What the workers' Pods say that it costs to delete them."""
    return {pod["metadata"].get("annotations", {}).get(ANNOTATION, "") for pod in site.pods_of("worker")}


def follow(site: Site, name: str, rows: int) -> None:
    """Two workers become four while at least so many rows are delivered, and two again."""
    site.wait_ready("worker", 2, timeout=2 * PATIENCE)
    feed = Feed(site, name)
    seen, said = [replicas(site)], set[str]()

    def wanted() -> bool:
        seen.append(replicas(site))
        said.update(costs(site))
        return feed.count < rows or max(seen) < 4

    feed.go_on_while(wanted, timeout=10 * PATIENCE)
    feed.wait_delivered()
    until(lambda: replicas(site) == 2, what="two workers again", timeout=3 * PATIENCE)
    until(lambda: costs(site) == {"0"}, what="both say that they have nothing in hand", timeout=PATIENCE)
    site.tell(f"workers, {name}: {seen[0]} to {max(seen)}, and 2 again; deletion costs {sorted(said)}")
    assert said - {"", "0"}
    site.audit()


def test_workers_follow_their_cpu_from_two_to_four_and_back_while_rows_are_delivered(site: Site) -> None:
    follow(site, "by CPU", ROWS)


def test_workers_follow_the_depth_of_the_queue_from_two_to_four_and_back_while_rows_are_delivered(site: Site) -> None:
    site.upgrade(site.image.tag.rpartition(":")[2], by_depth=True)
    follow(site, "by depth", ROWS)


def test_an_upgrade_under_load_loses_nothing_and_repeats_nothing(site: Site) -> None:
    site.node.tag(site.image.tag, f"{site.image.tag.rpartition(':')[0]}:next")
    feed = Feed(site, "upgraded")
    with ThreadPoolExecutor(max_workers=1) as beside:
        upgraded = beside.submit(site.upgrade, "next")
        feed.go_on_while(lambda: feed.count < AT_UPGRADE or not upgraded.done(), timeout=10 * PATIENCE)
        upgraded.result()
    for component in ("controller", "worker"):
        until(
            lambda component=component: all(runs_next(pod) for pod in site.pods_of(component)),
            what=f"all Pods of the {component} are new",
            timeout=PATIENCE,
        )
    feed.wait_delivered()
    site.audit()


def runs_next(pod: dict) -> bool:  # type: ignore[type-arg]
    return pod["spec"]["containers"][0]["image"].endswith(":next")
