"""When a process of ours looks for garbage that does not free itself: not while it imports, and seldom then.

A thousand launches, or rows, allocate some hundred thousand objects, and free them by themselves: at its defaults the
collector takes a quarter of their time to find nothing. What the imports left is not looked at again.
"""

import gc

THRESHOLDS = (5_000, 10, 10)


def collect_seldom() -> None:
    """Once the imports are through."""
    gc.set_threshold(*THRESHOLDS)
    collect()


def collect() -> None:
    """The same at the pace of the interpreter's defaults. Until then ``child`` has it switched off."""
    gc.freeze()
    gc.enable()
