"""``soloist``, and ``kubectl-soloist``: where the long-running commands part from the others.

A long-running command becomes a parent that stays small (under 20 MB), so nothing heavy is imported on its way; its
child reads the command line, and a wrong one ends both with its exit code. Everything else goes to ``cli`` directly.
"""

import os
import sys

LONG_RUNNING = frozenset({"controller", "worker", "elect", "standalone"})


def main() -> None:
    arguments = sys.argv[1:]
    if arguments and arguments[0] in LONG_RUNNING:
        from soloist.shells.supervisor import run

        # -P: what lies in the working directory is not imported.
        sys.exit(run([sys.executable, "-P", "-m", "soloist.shells.child_main", *arguments]))
    from soloist.shells.cli import cli

    plugin = os.path.basename(sys.argv[0]) == "kubectl-soloist"
    cli.main(args=arguments, prog_name="kubectl soloist" if plugin else "soloist")
