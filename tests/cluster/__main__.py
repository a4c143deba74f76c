"""`python -m tests.cluster up | down | status | kubeconfig | binaries | receiver`, from the root of the repository."""

from __future__ import annotations

import argparse
import sys
import time

from tests.cluster import detached, server_flags
from tests.cluster.backend import Backend
from tests.cluster.binaries import locate
from tests.cluster.children import ChildDied
from tests.cluster.foreground import until_told_to_end
from tests.cluster.versions import Unavailable


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description="A real control plane for tests.")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="start one that stays, and print its kubeconfig's path")
    start.add_argument("--all-controllers", action="store_true", help="the controller manager's own default set")
    start.add_argument("--slow-controllers", action="store_true", help="at its default 20 requests in a second")
    start.add_argument("--audit", action="store_true", help="write audit.log beside the kubeconfig")
    commands.add_parser("down", help="end it and remove its state")
    commands.add_parser("status", help="say which of its processes run; exit code 1 unless all do")
    commands.add_parser("kubeconfig", help="print the path of its kubeconfig")
    wanted = commands.add_parser("binaries", help="find or build the binaries, and print their paths")
    wanted.add_argument("names", nargs="*", help="default: etcd kube-apiserver kube-controller-manager kubectl; helm")
    commands.add_parser("receiver", help="until Ctrl-C: answers every request, and prints it with its key and fence")
    chosen = parser.parse_args()
    try:
        return COMMANDS[chosen.command](chosen)
    except (Unavailable, ChildDied, TimeoutError) as reason:
        print(reason, file=sys.stderr)
        return 1


def up(chosen: argparse.Namespace) -> int:
    config = detached.up(
        audit=chosen.audit,
        controllers=None if chosen.all_controllers else server_flags.CONTROLLERS,
        controller_flags=() if chosen.slow_controllers else server_flags.FAST,
    )
    print(config)
    print(f"The cluster is up: export KUBECONFIG={config}", file=sys.stderr)
    return 0


def down(chosen: argparse.Namespace) -> int:
    print("The cluster is down." if detached.down() else "There was no cluster.", file=sys.stderr)
    return 0


def status(chosen: argparse.Namespace) -> int:
    found = detached.read()
    if found is None:
        print("no cluster")
        return 1
    running = [(child, child.alive()) for child in detached.children(found)]
    for child, alive in running:
        print(f"{child.name:24} {'runs' if alive else 'is dead'}, process {child.pid}, log {child.log}")
    print(f"{'server':24} {found['server']}")
    return 0 if all(alive for _, alive in running) else 1


def kubeconfig(chosen: argparse.Namespace) -> int:
    found = detached.read()
    if found is None:
        print("There is no cluster: python -m tests.cluster up", file=sys.stderr)
        return 1
    print(found["kubeconfig"])
    return 0


def binaries(chosen: argparse.Namespace) -> int:
    for name, path in locate(*chosen.names).items():
        print(f"{name} {path}")
    return 0


def receiver(chosen: argparse.Namespace) -> int:
    with until_told_to_end(), Backend() as backend:
        print(backend.url(), flush=True)
        shown = 0
        while True:
            for each in backend.received()[shown:]:
                names = ("Idempotency-Key", "Soloist-Attempt", "Soloist-Fence")
                said = [f"{name}: {value}" for name in names if (value := each.header(name)) is not None]
                print(each.at.isoformat(timespec="milliseconds"), each.method, each.path, *said, flush=True)
                shown += 1
            time.sleep(0.1)
    return 0


COMMANDS = {
    "up": up,
    "down": down,
    "status": status,
    "kubeconfig": kubeconfig,
    "binaries": binaries,
    "receiver": receiver,
}

if __name__ == "__main__":
    sys.exit(main())
