"""`python -m tests`: all tests, in two runs beside each other.

Those on a control plane wait most of the time; those that need none compute, and do so at a lower priority. The binaries are
made before, since a compiler beside tests of times would spoil these. (A shell's `&` would not do: what it starts ignores
SIGINT, and so would every program that the tests start.)
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOG = Path(".cache/without-cluster.log")
PYTEST = (sys.executable, "-m", "pytest", "-m")


def main() -> int:
    if not os.environ.get("SOLOIST_WITHOUT_CLUSTER"):
        made = subprocess.run(
            [sys.executable, "-m", "tests.cluster", "binaries"], stdout=subprocess.DEVNULL, check=False
        )
        if made.returncode:
            return made.returncode
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("w") as log:
        others = subprocess.Popen(["nice", "-n", "5", *PYTEST, "not cluster"], stdout=log, stderr=subprocess.STDOUT)
        try:
            print(f"the tests on a control plane; the others run beside them, into {LOG}:", flush=True)
            cluster = subprocess.run([*PYTEST, "cluster"], check=False).returncode
            print("the tests that need none:", flush=True)
            beside = others.wait()
        finally:
            others.terminate()
    print(LOG.read_text(errors="replace"), flush=True)
    return cluster or beside


if __name__ == "__main__":
    sys.exit(main())
