"""The text format in which Prometheus reads metrics, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]


class Page:
    """A page of metrics under way; every name gets one HELP and one TYPE line before its samples."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, name: str, text: str, value: float | None) -> None:
        """Add a value that goes up and down; nothing if it is None."""
        if value is not None:
            self.family(name, "gauge", text, [({}, value)])

    def counter(self, name: str, text: str, value: float | None) -> None:
        """Add a value that only grows; nothing if it is None."""
        if value is not None:
            self.family(name, "counter", text, [({}, value)])

    def family(self, name: str, kind: str, text: str, samples: Iterable[tuple[Labels, float]]) -> None:
        """Add several samples of one name."""
        self._head(name, kind, text)
        self._lines += [f"{name}{_labels(labels)} {value:.17g}" for labels, value in samples]

    def histogram(
        self, name: str, text: str, bounds: Sequence[float], samples: Iterable[tuple[Labels, Sequence[int], float]]
    ) -> None:
        """Add histograms: for each its labels, the counts of its buckets (the last one unbounded), its sum."""
        self._head(name, "histogram", text)
        for labels, counts, total in samples:
            below = 0
            for bound, count in zip([*(f"{bound:g}" for bound in bounds), "+Inf"], counts, strict=True):
                below += count
                self._lines.append(f"{name}_bucket{_labels({**labels, 'le': bound})} {below}")
            self._lines.append(f"{name}_sum{_labels(labels)} {total:.17g}")
            self._lines.append(f"{name}_count{_labels(labels)} {below}")

    def encode(self) -> bytes:
        """Give the page as it is sent."""
        return ("\n".join(self._lines) + "\n").encode()

    def _head(self, name: str, kind: str, text: str) -> None:
        self._lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(str(value))}"' for name, value in labels.items()) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
