"""A page of manifests/examples/ as its reader has it: numbered steps whose commands are run as they stand, not paraphrased.

A step is a heading ``## 3. Apply it suspended``; its commands are the blocks that are fenced as ``sh``. What goes on for ever, holds for
the whole page or fetches the backend is fenced as ``bash``, and run by each page's test in its own way. Blocks of another kind (yaml, sql,
js, diff) are shown and not run. The reader stands in a folder that has ``manifests/`` in it, and puts own addresses and times in place of those of the files
before the first step: ``put`` names each text and what stands in its place.

    reader = Reader("invoices", tmp_path, namespace, put={"http://backend.default.svc": backend.url}, DATABASE_URL=dsn)
    reader.do(1)                  # what its commands printed; a command that fails fails the test with all of it
    reader.do(3, only="check")    # those of its commands in which that word stands

Where a page says that elsewhere one command is what another is here, ``reader.reads`` makes the one of the other.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adoption.backend_process import EXAMPLES
from tests.cluster.binaries import locate
from tests.cluster.fixtures import Namespace
from tests.docs.pages import ROOT
from tests.postgres.programs import postgres_programs
from tests.queue.nodejs import find_node

HEADING = re.compile(r"^## (\d+)\. (.+)$", re.MULTILINE)
COMMANDS = re.compile(r"^ *```sh\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """``commands`` are the blocks of it, each a small shell program."""

    number: int
    title: str
    commands: tuple[str, ...]


def steps(page: Path) -> list[Step]:
    """In their order; they are numbered from 1 without a gap."""
    text = page.read_text(encoding="utf-8")
    found = list(HEADING.finditer(text))
    ends = [each.start() for each in found[1:]] + [len(text)]
    made = [
        Step(int(each[1]), each[2], tuple(COMMANDS.findall(text[each.end() : end])))
        for each, end in zip(found, ends, strict=True)
    ]
    assert [each.number for each in made] == list(range(1, len(made) + 1)), (
        f"the steps of {page} are not numbered 1, 2, 3"
    )
    return made


class Reader:
    """Follows one page in a shell that has soloist, node and npm, kubectl (in ``namespace``, if there is one) and, with a DATABASE_URL, psql."""

    def __init__(
        self, example: str, folder: Path, namespace: Namespace | None = None, *, put: dict[str, str] | None = None, **env: str
    ) -> None:  # fmt: skip
        self.root = folder / "reader"
        self.example = self.root / "manifests" / "examples" / example
        self.steps = steps(EXAMPLES / example / "README.md")
        self.done: list[int] = []
        self.reads: Callable[[str], str] = lambda command: command
        self._copy(example, put or {})
        programs = self.root / "bin"
        programs.mkdir()
        for name in ("soloist", "kubectl-soloist"):
            (programs / name).symlink_to(Path(sys.executable).parent / name)
        self.env = {**find_node().environment, "PGSSLMODE": "disable", **env}
        if namespace is not None:
            (programs / "kubectl").symlink_to(locate()["kubectl"])
            config = namespace.cluster.kubeconfig(self.root / "kubeconfig", namespace=namespace.name)
            self.env["KUBECONFIG"] = str(config)
        if "DATABASE_URL" in env:
            (programs / "psql").symlink_to(postgres_programs() / "psql")
        self.env["PATH"] = f"{programs}{os.pathsep}{self.env['PATH']}"

    def _copy(self, example: str, put: dict[str, str]) -> None:
        self.example.parent.mkdir(parents=True)
        for each in (ROOT / "manifests").iterdir():
            if each.name != "examples":
                (self.root / "manifests" / each.name).symlink_to(each)
        shutil.copytree(EXAMPLES / example, self.example, ignore=shutil.ignore_patterns("node_modules", "generated"))
        files = {path: path.read_text(encoding="utf-8") for path in self.example.rglob("*.yaml")}
        for old, new in put.items():
            assert any(old in text for text in files.values()), f"{old!r} stands in no YAML file of {example}"
            files = {path: text.replace(old, new) for path, text in files.items()}
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")

    def export(self, command: str, put: dict[str, str]) -> None:
        """The variables that it leaves behind, with what ``put`` has in place of its values, hold from now on."""
        for old, new in put.items():
            assert old in command, f"{old!r} stands nowhere in {command}"
            command = command.replace(old, new)
        # Of the variables before it only those of the machine are known to it.
        argv = ["bash", "-euc", f"{command}env -0"]
        env = {name: self.env[name] for name in ("PATH", "HOME") if name in self.env}
        done = subprocess.run(argv, cwd=self.root, env=env, capture_output=True, text=True, check=True)
        self.env |= dict(each.split("=", 1) for each in done.stdout.split("\0") if each)

    def do(self, number: int, *, only: str = "") -> str:
        """Runs the commands of that step, in the order of the page."""
        step = self.steps[number - 1]
        said = "".join(self.run(command) for command in step.commands if only in command)
        self.done.append(number)
        return said

    def run(self, command: str) -> str:
        """What it printed."""
        argv = ["bash", "-euo", "pipefail", "-c", self.reads(command)]
        done = subprocess.run(
            argv, cwd=self.root, env=self.env, capture_output=True, text=True, timeout=300, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{command}\n{said}"
        return said

    def said(self, *arguments: str) -> dict[str, Any]:
        """What `soloist` says of it to programs, asked as the page's commands are."""
        argv = ["soloist", *arguments, "-o", "json"]
        done = subprocess.run(
            argv, cwd=self.root, env=self.env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def whole(self) -> bool:
        """Every step that has commands was done, and in the order of the page."""
        return list(dict.fromkeys(self.done)) == [each.number for each in self.steps if each.commands]
