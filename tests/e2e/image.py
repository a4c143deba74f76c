"""`python -m tests.e2e.image`: builds the image of the Dockerfile where no registry is needed, and says how big it came out.

With --base, or where Docker runs, from that base; else from a base made by debootstrap, by buildah. The locked wheels are
fetched beforehand, each held to its hash, so that no step of the build asks the network for anything.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.node_binaries import installed
from tests.cluster.node_images import BASE, base_archive
from tests.cluster.versions import Unavailable, cache

ROOT = Path(__file__).parents[2]
IGNORED = ROOT / ".dockerignore"
WHEELS = ROOT / ".cache" / "wheels"
LOCKS = ("requirements-build.txt", "requirements-image.txt")
TAG = "localhost/soloist:dev"
MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A docker archive, its tag, and bytes: all that a node unpacks, and the part of it that is the base."""

    archive: Path
    tag: str
    size: int
    base: int


def build(*, tag: str = TAG, base: str = "") -> Image:
    """Raises Unavailable with what is missing on this machine, RuntimeError where the build itself fails."""
    name = tag.rpartition("/")[2].replace(":", "-")
    archive = cache() / "images" / f"{name}-{digest(base)}.tar"
    if not archive.exists():
        fetch_wheels()
        archive.parent.mkdir(parents=True, exist_ok=True)
        for old in archive.parent.glob(f"{name}-*.tar"):
            old.unlink()
        made = archive.with_suffix(".new")
        made.unlink(missing_ok=True)
        (with_docker if docker_runs() else with_buildah)(tag, base, made)
        made.rename(archive)
    return measured(archive, tag)


def digest(base: str) -> str:
    """Of all that is let through to the build: an image that would come out the same is not built again."""
    let_through = [
        line[1:] for line in IGNORED.read_text().splitlines() if line.startswith("!") and "wheels" not in line
    ]
    found = [path for name in (*let_through, "Dockerfile") for path in (ROOT / name, *(ROOT / name).rglob("*"))]
    told = hashlib.sha256(base.encode())
    for path in sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts):
        told.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return told.hexdigest()[:12]


def fetch_wheels() -> None:
    WHEELS.mkdir(parents=True, exist_ok=True)
    for lock in LOCKS:
        target = ("--only-binary", ":all:", "--python-version", "3.11", "--require-hashes")
        run([sys.executable, "-m", "pip", "download", "-q", "-d", WHEELS, *target, "-r", ROOT / ".ci" / lock])


def docker_runs() -> bool:
    docker = shutil.which("docker")
    return bool(docker) and subprocess.run([str(docker), "version"], capture_output=True, check=False).returncode == 0


def with_docker(tag: str, base: str, archive: Path) -> None:
    chosen = ["--build-arg", f"BASE={base}"] if base else []
    run(["docker", "build", *chosen, *arguments(), "-t", tag, ROOT])
    run(["docker", "save", "-o", archive, tag])


def with_buildah(tag: str, base: str, archive: Path) -> None:
    """Its store is thrown away: what is kept is the archive."""
    with tempfile.TemporaryDirectory(dir=cache(), prefix="buildah-") as folder:
        buildah = [installed()["buildah"], "--root", f"{folder}/root", "--runroot", f"{folder}/run"]
        buildah += ["--storage-driver", "overlay"]
        if not base:
            run([*buildah, "pull", "-q", f"docker-archive:{base_archive()}"])
        chosen = ["--isolation", "chroot", "--build-arg", f"BASE={base or BASE}", *([] if base else ["--pull-never"])]
        run([*buildah, "bud", *chosen, *arguments(), "-t", tag, ROOT])
        run([*buildah, "push", "-q", tag, f"docker-archive:{archive}:{tag}"])


def arguments() -> list[str]:
    said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return ["--build-arg", "PIP_NO_INDEX=1", "--build-arg", f"REVISION={said.stdout.strip() or 'unknown'}"]


def run(argv: Sequence[str | Path]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}".strip()
        raise RuntimeError(f"`{' '.join(map(str, argv[:6]))} …` failed: {said[-1500:]}")


def measured(archive: Path, tag: str) -> Image:
    with tarfile.open(archive) as tar:
        manifest = json.load(tar.extractfile("manifest.json") or sys.exit("no manifest.json"))
        layers = [tar.getmember(name) for name in manifest[0]["Layers"]]
        sizes = [(tar.getmember(str(each.linkname)) if each.issym() else each).size for each in layers]
    return Image(archive=archive, tag=tag, size=sum(sizes), base=sum(sizes[:-1]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.image", description="Builds the image.")
    parser.add_argument(
        "--base", default="", help="image to build on; default: the Dockerfile's, or one by debootstrap"
    )
    parser.add_argument("--tag", default=TAG)
    chosen = parser.parse_args()
    try:
        image = build(tag=chosen.tag, base=chosen.base)
    except (Unavailable, RuntimeError) as reason:
        print(reason, file=sys.stderr)
        return 1
    print(f"{image.tag}: {image.size / MB:.0f} MB, of which {image.base / MB:.0f} MB are the base; {image.archive}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
