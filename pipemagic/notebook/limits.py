"""How many rows of a frame are shown, which is a setting of pandas and of Polars for all frames."""

from __future__ import annotations

import os
from typing import Any

_PANDAS = ("display.max_rows", "display.min_rows")
_POLARS = "POLARS_FMT_MAX_ROWS"

_before: dict[str, Any] = {}
"""The settings that were replaced, as they were; None for one that was not set."""

_ours: dict[str, Any] = {}
"""What they were replaced by."""


def limit_display(kind: str, rows: int) -> None:
    """Have pandas, or Polars, show at most so many rows of a frame."""
    if kind == "pandas":
        for name in _PANDAS:
            _replace(name, rows)
    elif kind == "polars":
        _replace(_POLARS, str(rows))


def restore() -> None:
    """Give the settings back as they were, but for those that somebody else has changed since."""
    for name, value in _before.items():
        if _get(name) == _ours[name]:
            _set(name, value)
    _before.clear()


def _replace(name: str, value: Any) -> None:
    now = _get(name)
    if name not in _before or now != _ours[name]:
        _before[name] = now
    _ours[name] = value
    _set(name, value)


def _get(name: str) -> Any:
    return os.environ.get(name) if name == _POLARS else _pandas().get_option(name)


def _set(name: str, value: Any) -> None:
    if name in _PANDAS:
        _pandas().set_option(name, value)
    elif value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _pandas() -> Any:
    import pandas

    return pandas
