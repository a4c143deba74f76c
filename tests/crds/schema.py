"""The CRDs read as lists of fields. `python -m tests.crds.schema` writes the golden list anew, for a reviewer to read the diff."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
GOLDEN = Path(__file__).with_name("golden_fields.txt")

BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties")
KINDS = {"ScheduledJob": "scheduledjobs.yaml", "JobRun": "jobruns.yaml", "WorkQueue": "workqueues.yaml"}


def crd(kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CRDS / KINDS[kind]).read_text(encoding="utf-8"))
    return loaded


def version(kind: str) -> dict[str, Any]:
    """The one version of a kind."""
    (only,) = crd(kind)["spec"]["versions"]
    found: dict[str, Any] = only
    return found


def root(kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = version(kind)["schema"]["openAPIV3Schema"]
    return schema


def walk(schema: dict[str, Any], path: str, *, required: bool = False) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """(path, schema, required) of a field and all that lies under it, parents first."""
    yield path, schema, required
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}", required=name in schema.get("required", ()))
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from walk(schema["additionalProperties"], f"{path}{{}}")


def described_fields() -> str:
    """Everything about the CRDs that a client can depend on, one line a field; the words of descriptions are left out."""
    lines = []
    for kind in KINDS:
        spec, served = crd(kind)["spec"], version(kind)
        lines += [
            f"{spec['group']}/{served['name']} {kind} {json.dumps(spec['names'])} {spec['scope']}",
            f"  subresources {json.dumps(served['subresources'])}",
            f"  selectable {', '.join(field['jsonPath'] for field in served['selectableFields'])}",
        ]
        lines += [
            f"  column {column['name']} {column['type']} {column['jsonPath']} {column.get('priority', 0)}"
            for column in served["additionalPrinterColumns"]
        ]
        for path, schema, required in walk(root(kind), kind):
            lines += _lines(path, schema, required)
    return "\n".join(lines) + "\n"


def _lines(path: str, schema: dict[str, Any], required: bool) -> list[str]:
    words = [path, schema.get("type", "any")]
    words += [schema["format"]] if "format" in schema else []
    words += ["required"] if required else []
    words += [f"default={json.dumps(schema['default'])}"] if "default" in schema else []
    words += [f"enum={'|'.join(schema['enum'])}"] if "enum" in schema else []
    words += [f"{bound}={schema[bound]}" for bound in BOUNDS if bound in schema]
    words += [
        f"{name.removeprefix('x-kubernetes-')}={json.dumps(value)}"
        for name, value in schema.items()
        if name.startswith("x-kubernetes-") and name != "x-kubernetes-validations"
    ]
    words += ["described" if schema.get("description") else "undescribed"]
    rules = [f"    rule {rule['rule']}" for rule in schema.get("x-kubernetes-validations", ())]
    return ["  " + " ".join(words), *rules]


if __name__ == "__main__":
    GOLDEN.write_text(described_fields(), encoding="utf-8")
