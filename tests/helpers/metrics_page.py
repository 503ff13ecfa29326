"""A page of metrics as Prometheus reads it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

Series = tuple[str | tuple[str, str], ...]


def read_samples(page: str | bytes) -> dict[Series, float]:
    """Return the values of a page by name and sorted labels."""
    text = page if isinstance(page, str) else page.decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text) for sample in family.samples
    }  # fmt: skip


def read_families(page: str | bytes) -> dict[str, tuple[str, set[str]]]:
    """Return the type and the label names of each family of a page."""
    text = page if isinstance(page, str) else page.decode()
    return {
        family.name + ("_total" if family.type == "counter" else ""): (
            family.type, {label for sample in family.samples for label in sample.labels}
        )
        for family in text_string_to_metric_families(text)
    }  # fmt: skip
