"""Where a child begins: ``python -m soloist.shells.child_main COMMAND …`` is how the parent starts it.

First the kernel is asked for what the child owes its parent; only then is anything imported that may take long, or hang.
"""

import gc
import sys

from soloist.shells.child import die_on_alarm, die_with_parent


def main() -> None:
    die_with_parent()
    die_on_alarm()
    gc.disable()  # a tenth of what imports take, for nothing; the command turns it on again (see garbage)
    from soloist.shells.cli import cli

    cli.main(args=sys.argv[1:], prog_name="soloist")


if __name__ == "__main__":
    main()
