"""Makes the environment that the image ships smaller: what no code of ours loads goes, the rest is compiled.

Most of the kubernetes package are an asyncio twin and a class for each kind and group of the API, loaded when they are asked
for. We speak that API in plain dictionaries and ask for none; they would be half of what the image adds to its base.
Afterwards every module of ours is imported anew, so that an image which lacks one of theirs is never made.
"""

import compileall
import importlib
import pkgutil
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGES = Path(sysconfig.get_path("purelib"))
GENERATED = ("kubernetes/client/api/*.py", "kubernetes/client/models/*.py")
UNUSED = "kubernetes/aio"


def load() -> None:
    for module in pkgutil.walk_packages([str(PACKAGES / "soloist")], "soloist."):
        importlib.import_module(module.name)


def leave_out() -> None:
    used = {Path(module.__file__) for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
    found = [path for pattern in GENERATED for path in PACKAGES.glob(pattern)]
    unused = [path for path in found if path not in used and path.name != "__init__.py"]
    if not unused or any((PACKAGES / UNUSED) in path.parents for path in used):
        raise SystemExit("The kubernetes package is not what it was: look again what of it may be left out.")
    shutil.rmtree(PACKAGES / UNUSED)
    for path in unused:
        path.unlink()


def main() -> None:
    load()
    leave_out()
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(PACKAGES, quiet=1, invalidation_mode=mode, workers=1):
        raise SystemExit("Something in the environment does not compile.")
    subprocess.run([sys.executable, __file__, "load"], check=True)


if __name__ == "__main__":
    load() if sys.argv[1:] == ["load"] else main()
