"""Whatever the rules write into a status has its field in the schema: the API server prunes the rest without a word."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.domain.test_protocol_model import JOBS, SPECS, TRANSACTIONS, walk
from tests.domain.world import World

CRDS = Path(__file__).parents[2] / "manifests" / "crds"


def schema_of(name: str) -> dict[str, Any]:
    crd = yaml.safe_load((CRDS / name).read_text())
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    return found


def pruned(value: Any, schema: dict[str, Any], path: str = "status") -> Iterator[str]:
    """The paths in ``value`` for which the schema has no place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            field = schema.get("properties", {}).get(key)
            if field is None:
                yield f"{path}.{key}"
            else:
                yield from pruned(inner, field, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from pruned(item, schema.get("items", {}), f"{path}[]")


@pytest.mark.parametrize("spec", [*SPECS, TRANSACTIONS[0], JOBS[0]], ids=range(len(SPECS) + 2))
def test_no_field_of_a_written_status_is_pruned(spec: dict[str, Any]) -> None:
    jobs, runs = schema_of("scheduledjobs.yaml"), schema_of("jobruns.yaml")
    seen: set[str] = set()
    for seed in range(12):
        world = World(spec=spec)
        for _ in range(10):
            walk(world, random.Random(seed), 40)
            assert list(pruned(world.job["status"], jobs)) == []
            for run in world.runs.values():
                assert list(pruned(run.get("status", {}), runs)) == []
                seen |= run.get("status", {}).keys()
            seen |= {f"active.{key}" for entry in world.job["status"].get("active", ()) for key in entry}
    assert {"active.launchTime", "active.timeoutSeconds", "active.action", "phase", "attempt"} <= seen
    assert ("active.ledger" in seen) == ("sql" in spec)
    assert ("active.prepared" in seen) == ("job" in spec)
