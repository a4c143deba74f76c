"""Images for a node that can reach no registry: a base with Python made by debootstrap, pause made by Go, archives made by hand.

An archive is what `docker save` writes: containerd, buildah and docker read it. Layers carry no times, so that the same
files give the same image. What takes long is kept in the cache, each under a name that says what it is made of.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.cluster import go_build
from tests.cluster.node_binaries import installed
from tests.cluster.versions import MODULES, Unavailable, cache

SUITE = "bookworm"
INCLUDED = "python3,python3-venv,ca-certificates"
BASE, PAUSE = "localhost/python-base:3.11", "localhost/pause:1"
BUSYBOX = "docker.io/library/busybox:1.37"
"""As manifests/examples have it. What is under that name here is the system's, with the programs that they use."""
APPLETS = ("sh", "sleep", "mkdir", "echo", "httpd", "wget")
NOT_IN_BASE = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/lib/apt/lists", "var/cache/apt")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))


def base_archive() -> Path:
    """Debian with Python 3.11 and nothing else: 130 MB, a minute the first time."""
    path = cache() / "images" / f"python-base-{SUITE}.tar"
    with go_build.locked("python-base"):
        if not path.exists():
            go_build.say("making a base image by debootstrap (about a minute, once)")
            with tempfile.TemporaryDirectory(dir=cache()) as folder:
                _debootstrap(Path(folder))
                _archive(path, BASE, Path(folder) / "layer.tar", {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]})
    return path


def _debootstrap(folder: Path) -> None:
    root = folder / "root"
    argv = [installed()["debootstrap"], "--variant=minbase", f"--include={INCLUDED}", SUITE, root, mirror()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"debootstrap failed; is the mirror {mirror()} reachable? It said: {done.stdout[-400:]}")
    for name in NOT_IN_BASE:
        shutil.rmtree(root / name, ignore_errors=True)
    layer = folder / "layer.tar"
    same = ["--numeric-owner", "--sort=name", "--mtime=@0", "--exclude=./dev/*", "--exclude=./proc/*"]
    subprocess.run(["tar", *same, "-C", root, "-cf", layer, "."], check=True)


def mirror() -> str:
    """Where this machine's own packages come from."""
    for source in SOURCES:
        for line in source.read_text().splitlines() if source.exists() else ():
            words = line.split()
            if words[:1] in (["URIs:"], ["deb"]):
                return next(word for word in words if "://" in word)
    return "http://deb.debian.org/debian"


def pause_archive() -> Path:
    """What holds a Pod's namespaces while its containers come and go: 1.4 MB."""
    source = MODULES / "pause" / "main.go"
    path = cache() / "images" / f"pause-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.tar"
    with go_build.locked("pause"):
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=go_build.cache_folder()) as folder:
                program, layer = Path(folder) / "pause", Path(folder) / "layer.tar"
                argv = [str(go_build.find_go()), "build", "-ldflags", "-s -w", "-o", str(program), "."]
                go_build.run_quietly(argv, source.parent)
                with tarfile.open(layer, "w") as tar:
                    tar.add(program, "pause", filter=_plain)
                _archive(path, PAUSE, layer, {"Entrypoint": ["/pause"]})
    return path


def busybox_archive() -> Path:
    """One static program under several names."""
    program = installed()["busybox"]
    path = cache() / "images" / f"busybox-{hashlib.sha256(program.read_bytes()).hexdigest()[:12]}.tar"
    with go_build.locked("busybox"), tempfile.TemporaryDirectory(dir=cache()) as folder:
        if not path.exists():
            layer = Path(folder) / "layer.tar"
            with tarfile.open(layer, "w") as tar:
                tar.add(program, "bin/busybox", filter=_plain)
                for name in APPLETS:
                    link = tarfile.TarInfo(f"bin/{name}")
                    link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                    tar.addfile(link)
                tmp = tarfile.TarInfo("tmp")
                tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
                tar.addfile(tmp)
            _archive(path, BUSYBOX, layer, {"Env": ["PATH=/bin"]})
    return path


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o755
    return member


def _archive(path: Path, tag: str, layer: Path, config: dict[str, Any]) -> None:
    """One layer as a docker archive, written whole: a reader never sees half of one."""
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    image = {
        "architecture": MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "tests/cluster/node_images.py"}],
    }
    described = json.dumps(image).encode()
    name = f"{hashlib.sha256(described).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]}]
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.new")
    with tarfile.open(made, "w") as tar:
        tar.add(layer, f"{digest}/layer.tar", filter=_plain)
        for title, content in ((name, described), ("manifest.json", json.dumps(manifest).encode())):
            member = tarfile.TarInfo(title)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    made.rename(path)
