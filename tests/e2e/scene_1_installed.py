"""What a user sees after `helm install`: Pods under the restricted standard, examples that run, the columns of kubectl."""

from __future__ import annotations

import re

from tests.cluster.children import until
from tests.docs.shown_tables import heads, of_the_readme
from tests.e2e.image import MB
from tests.e2e.site import EVERY_SECOND, NAMESPACE, QUEUE, RELEASE, ROOT, Site

EXAMPLES = ROOT / "manifests" / "examples"
MOST = 200 * MB


def test_the_image_is_no_larger_than_the_page_says_its_base_included(site: Site) -> None:
    site.tell(f"the image: {site.image.size / MB:.0f} MB, of which {site.image.base / MB:.0f} MB are the base")
    assert site.image.size <= MOST
    assert f"held to {MOST // MB} MB, its base included" in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_two_controllers_and_two_workers_are_ready_without_a_restart(site: Site) -> None:
    site.wait_ready("controller", 2)
    site.wait_ready("worker", 2)
    for component in ("controller", "worker"):
        for pod in site.pods_of(component):
            assert [each["restartCount"] for each in pod["status"]["containerStatuses"]] == [0], site.pods()


def test_the_test_of_the_chart_passes(site: Site) -> None:
    site.helm("test", RELEASE, "--timeout", "3m")


def test_ticks_arrive_once_a_second(site: Site) -> None:
    site.backend.wait(5, path=f"/{EVERY_SECOND}", timeout=60)
    site.audit()


def test_the_first_example_runs_as_its_comment_says_and_shows_what_the_readme_shows(site: Site) -> None:
    site.node.kubectl("apply", "-f", EXAMPLES / "http-every-30-seconds.yaml")
    runs = "/apis/soloist.dev/v1alpha1/namespaces/default/jobruns"
    until(
        lambda: [run for run in site.node.api().items(runs) if run.get("status", {}).get("phase") == "Succeeded"],
        what="the API server's version was asked for",
        timeout=120,
    )
    shown = site.node.kubectl("get", "sj,jr")
    site.tell("kubectl get sj,jr\n" + shown)
    assert heads(shown) == of_the_readme()[:2]


def test_a_job_runs_as_a_pod_with_the_time_it_is_for(site: Site) -> None:
    site.make_a_job_of_the_image("report", "@every 10s")


def test_a_row_is_delivered(site: Site) -> None:
    with site.postgres.connect() as connection:
        connection.execute("SELECT soloist.enqueue(%s, '{}'::jsonb)", (f"{NAMESPACE}/{QUEUE}",))
    site.backend.wait(1, path=f"/{QUEUE}", timeout=60)


def test_kubectl_shows_the_columns_that_the_readme_shows(site: Site) -> None:
    shown = site.node.kubectl("-n", NAMESPACE, "get", "sj,jr,wq")
    site.tell("kubectl get sj,jr,wq\n" + shown)
    assert heads(shown) == of_the_readme()
    for kind in ("scheduledjob", "jobrun", "workqueue"):
        assert re.search(rf"^{kind}\.soloist\.dev/\S+ +\S", shown, re.MULTILINE), shown


def test_nothing_in_the_container_can_be_written_and_nothing_runs_as_root(site: Site) -> None:
    pod = site.leader()
    script = "import os; print(os.getuid()); open('/opt/soloist/x', 'w')"
    asked = ["exec", pod, "--", "python3", "-c", script]
    try:
        site.node.kubectl("-n", NAMESPACE, *asked)
    except Exception as refused:
        said = " ".join(getattr(refused, "__notes__", []))
        assert "Read-only file system" in said or "Permission denied" in said, said
    else:
        raise AssertionError("The root file system could be written.")
