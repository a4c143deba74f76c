"""The examples of docs/queues.md, and what runs them: psql, Python, Node with `pg` or Prisma, Go with lib/pq.

An example is a fenced block below a line ``<!-- example: NAME -->``. What Node and Go need is fetched once, by the locked
versions in ``node/`` and ``go/``, into the cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cluster.go_build import find_go, locked, run_go
from tests.cluster.versions import Unavailable, cache
from tests.docs.pages import DOCS
from tests.queue.nodejs import find_node

HERE = Path(__file__).parent
BLOCK = re.compile(r"^<!-- example: ([a-z-]+) -->\n```[a-z]+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = dict(BLOCK.findall((DOCS / "queues.md").read_text(encoding="utf-8")))


def run(argv: list[str], dsn: str, **env: str) -> str:
    """What it printed; a failure has all of it."""
    variables = {**os.environ, "DATABASE_URL": dsn, "PGSSLMODE": "disable", **env}
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def python(folder: Path, name: str, then: str, dsn: str) -> str:
    program = folder / "example.py"
    program.write_text(EXAMPLES[name] + "\n\n" + then)
    return run([sys.executable, str(program)], dsn)


def node(folder: Path, names: list[str], then: str, dsn: str) -> str:
    program = folder / "example.js"
    program.write_text("\n".join(EXAMPLES[name] for name in names) + "\n" + then)
    try:
        modules, found = node_home(HERE / "node") / "node_modules", find_node()
    except Unavailable as reason:
        pytest.fail(str(reason), pytrace=False)
    return run([str(found.program), str(program)], dsn, NODE_PATH=str(modules))


def node_home(source: Path, *commands: str) -> Path:
    """A copy of `source` with its node_modules, in which `commands`, `npm ci` the first, ran once for each state of them and of its files."""
    wanted = commands or ("npm ci --ignore-scripts",)
    files = sorted(path for path in source.rglob("*") if path.is_file())
    content = b"".join([*(path.read_bytes() for path in files), *map(str.encode, wanted)])
    home = cache() / f"{source.name}-{hashlib.sha256(content).hexdigest()[:12]}"
    with locked(home.name):
        if not home.exists():
            fetch(source, home, " && ".join(wanted))
    return home


def fetch(source: Path, home: Path, command: str) -> None:
    environment = {**find_node().environment, "npm_config_audit": "false", "npm_config_fund": "false"}
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".fetching-") as folder:
        made = Path(folder) / "made"
        shutil.copytree(source, made, ignore=shutil.ignore_patterns("node_modules", "generated", "dist"))
        done = subprocess.run(["sh", "-c", command], cwd=made, env=environment, capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode:
            reason = (done.stdout + done.stderr)[-600:]
            raise Unavailable(f"{command!r} failed in a copy of {source} (is a registry reachable?): {reason}")
        made.rename(home)


def go_program(main: Path, names: list[str]) -> Path:
    """The examples and ``main`` as one program, built once for each state of them."""
    source = main.read_text(encoding="utf-8") + "\n" + "\n".join(EXAMPLES[name] for name in names)
    files = {name: (HERE / "go" / name).read_bytes() for name in ("go.mod", "go.sum")}
    digest = hashlib.sha256(b"".join([source.encode(), *files.values()])).hexdigest()[:12]
    built = cache() / "bin" / f"examples-{digest}"
    try:
        with locked(f"examples-{digest}"):
            if not built.exists():
                built.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=built.parent, prefix=".building-") as folder:
                    for name, text in {**files, "main.go": source.encode()}.items():
                        (Path(folder) / name).write_bytes(text)
                    argv = [str(find_go()), "build", "-v", "-mod=readonly", "-o", "program", "."]
                    run_go(argv, Path(folder), "the examples")
                    (Path(folder) / "program").rename(built)
    except Unavailable as reason:
        pytest.fail(str(reason), pytrace=False)
    return built
