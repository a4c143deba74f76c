"""What a page of /metrics has under a name."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


def series(page: str, name: str, **labels: str) -> list[float]:
    """The value of each series of that name and those labels."""
    samples = [each for family in text_string_to_metric_families(page) for each in family.samples if each.name == name]
    return [each.value for each in samples if labels.items() <= each.labels.items()]
