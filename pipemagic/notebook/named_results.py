"""Which of the names in ``-- name: x`` comments are assigned: a comment never replaces more than data."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from pipemagic.session.cell import Cell

_OF_IPYTHON = re.compile(r"_+|_i+|_i?\d+|_[iod]h|In|Out|__\w+__")


def without_reserved_names(cell: Cell, variables: Mapping[str, Any], out: Sequence[str]) -> tuple[Cell, list[str]]:
    """Return a cell without the names that its comments must not assign, and a line for each of them.

    ``out`` are the variables that --out names.
    """
    reasons = {name: _reason(name, variables, out) for name in cell.names if name}
    if not any(reasons.values()):
        return cell, []
    names = tuple("" if reasons.get(name) else name for name in cell.names)
    hidden = cell.names[-1] if len(out) == 1 else ""  # --out stores its rows under the same name
    lines = [
        f"`-- name: {name}` stores nothing, because {reason}: use another name."
        for name, reason in reasons.items()
        if reason and not (name == hidden and name in out)
    ]
    return replace(cell, names=names), lines


def _reason(name: str, variables: Mapping[str, Any], out: Sequence[str]) -> str:
    """Return why a name cannot be assigned, '' if it can."""
    if name in out:
        return f"--out {name} names the same variable"
    if _OF_IPYTHON.fullmatch(name):
        return f"{name} is a variable of IPython"
    value = variables[name] if name in variables else getattr(builtins, name, None)
    if isinstance(value, ModuleType):
        return f"{name} is a module"
    if isinstance(value, type):
        return f"{name} is a class"
    return f"{name} is a function" if callable(value) else ""
