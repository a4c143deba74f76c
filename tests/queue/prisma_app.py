"""An application with the real Prisma 7 client, in a Node process that does what a test tells it, one expression at a time.

`prisma generate` runs once for each state of the files in ``prisma/``. It would fetch the program that migrates, and never run it; so
package.json tells it of one that does nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.versions import Unavailable
from tests.queue.examples import HERE, node_home
from tests.queue.nodejs import find_node


class PrismaApp:
    """`app.run("prisma.webhook.count()")` gives its value; an array of queries is a transaction of Prisma's."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, expression: str, **values: Any) -> Any:
        """`values` are constants in the expression; those that are an instant come back as text in ISO 8601."""
        named = "".join(f"const {name} = {json.dumps(value)}; " for name, value in values.items())
        line = f"await (async () => {{ {named}return await ({expression}); }})()"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, "the application has ended"
        answer = json.loads(said)
        assert "error" not in answer, answer["error"]
        return answer["value"]


@contextmanager
def prisma_app(dsn: str) -> Iterator[PrismaApp]:
    environment = {**os.environ, "DATABASE_URL": dsn, "PGSSLMODE": "disable"}
    argv = [str(find_node().program), str(prisma_home() / "application.js")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            yield PrismaApp(process)
        finally:
            process.kill()


def prisma_home() -> Path:
    try:
        return node_home(HERE / "prisma", "npm ci --ignore-scripts", "npm run generate")
    except Unavailable as reason:
        pytest.fail(str(reason), pytrace=False)
