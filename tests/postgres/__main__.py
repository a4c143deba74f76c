"""`python -m tests.postgres up | down | dsn`, from the root of the repository: one server that outlives its command.
`python -m tests.postgres run`, or `run-pgbouncer`: one in the terminal, until Ctrl-C.

A pid alone names nothing after a while. With its time of birth it names the process that was started, or none.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.cluster.children import ChildDied
from tests.cluster.foreground import stay, until_told_to_end
from tests.cluster.state_folder import OWNER
from tests.cluster.versions import Unavailable, cache
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Postgres, make_folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.postgres", description="A real PostgreSQL for tests.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start one that stays, and print how to connect to it")
    commands.add_parser("down", help="end it and remove its data")
    commands.add_parser("dsn", help="print how to connect to it")
    commands.add_parser("run", help="one until Ctrl-C, with its data")
    commands.add_parser("run-pgbouncer", help="the same behind PgBouncer in transaction mode")
    does = {"up": up, "down": down, "dsn": dsn, "run": run, "run-pgbouncer": run_pgbouncer}
    try:
        return does[parser.parse_args().command]()
    except (Unavailable, ChildDied, TimeoutError, RuntimeError) as reason:
        print(reason, file=sys.stderr)
        return 1


def state_file() -> Path:
    return cache() / "postgres.json"


def up() -> int:
    running = found()
    if running is not None and running.postmaster.alive():
        return dsn()
    if running is not None:
        down()
    folder = make_folder()
    (folder / OWNER).unlink()  # nobody's, so that no later run takes it for something left behind
    server = Postgres(directory=folder, detached=True).up()
    state = {"folder": str(folder), "port": server.port, "pid": server.postmaster.pid, "born": server.postmaster.born}
    cache().mkdir(parents=True, exist_ok=True)
    state_file().write_text(json.dumps(state))
    return dsn()


def down() -> int:
    server = found()
    if server is None:
        print("There was no PostgreSQL.", file=sys.stderr)
        return 0
    server.down()
    state_file().unlink()
    print("PostgreSQL is down.", file=sys.stderr)
    return 0


def dsn() -> int:
    server = found()
    if server is None:
        print("There is no PostgreSQL: python -m tests.postgres up", file=sys.stderr)
        return 1
    print(server.dsn())
    return 0


def run() -> int:
    with until_told_to_end(), Postgres() as server:
        print(server.dsn(), flush=True)
        stay()
    return 0


def run_pgbouncer() -> int:
    with until_told_to_end(), Postgres() as server, PgBouncer(server) as pooler:
        print(pooler.dsn(), flush=True)
        print(f"Behind it, without a pooler: {server.dsn()}", file=sys.stderr)
        stay()
    return 0


def found() -> Postgres | None:
    if not state_file().exists():
        return None
    state: dict[str, Any] = json.loads(state_file().read_text())
    server = Postgres(directory=Path(state["folder"]), detached=True)
    server.port = state["port"]
    server.postmaster.adopt(state["pid"], state["born"])
    return server


if __name__ == "__main__":
    sys.exit(main())
