"""The folder one cluster keeps its state in. Folders whose owner was killed before it could tidy up go with the next run."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from tests.cluster.children import born

PREFIX = "soloist-cluster-"
OWNER = "owner.json"


def make_state_folder() -> Path:
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if (left / OWNER).exists() and not owned(left):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=PREFIX))
    half = made / f".{OWNER}"
    half.write_text(json.dumps({"pid": os.getpid(), "born": born(os.getpid())}))
    half.rename(made / OWNER)
    return made


def owned(folder: Path) -> bool:
    owner = json.loads((folder / OWNER).read_text())
    return born(int(owner["pid"])) == str(owner["born"])
