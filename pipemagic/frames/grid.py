"""Name, choose and convert the columns of a file by the options of its reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from pipemagic.errors import LoadError
from pipemagic.sql import folded
from pipemagic.suggestions import did_you_mean
from pipemagic.text import plural

_SHOWN = 12  # names in a hint


def column_names(grid: pd.DataFrame, header: object, options: Mapping[str, Any], name: str) -> list[str | None]:
    """Return the name of each column, None for one without a name and values."""
    labels = options.get("names")
    if header is not None and not (isinstance(header, int) and 0 <= header < len(grid)):
        raise LoadError(f"header={header!r} is not a row number of {name}", hint="header=0 is the first row")
    texts = [str(place) for place in grid.columns] if header is None else [str(text) for text in grid.iloc[header]]
    if labels is not None:
        if len(labels) != len(texts):
            raise LoadError(f"names has {plural(len(labels), 'name')}, but {name} has {plural(len(texts), 'column')}")
        texts = [str(text) for text in labels]
    names: list[str | None] = list(texts)
    for place, text in enumerate(texts):
        if text.strip():
            continue
        values = grid.iloc[0 if header is None else header + 1 :, place]
        if not values.astype(bool).any() and len(texts) > 1:  # each line ends with a separator
            names[place] = None
        elif place == 0 and "index" not in map(folded, texts):  # as pandas writes a frame with its index
            names[place] = "index"
        else:
            raise LoadError(f"{name}: column {place + 1} has no name", hint=_named(texts))
    keys = [folded(text) for text in names if text is not None]
    twice = list(dict.fromkeys(text for text in names if text is not None and keys.count(folded(text)) > 1))
    if twice:
        raise LoadError(f"{name}: duplicate column names: {', '.join(twice)}", hint=_named(texts))
    return names


def _named(texts: Sequence[str]) -> str:
    """Return the hint to name all columns."""
    names: list[str] = []
    for place, text in enumerate(texts, start=1):
        wanted, number = text if text.strip() else f"column{place}", 2
        candidate = wanted
        while folded(candidate) in map(folded, names):
            candidate, number = f"{wanted}_{number}", number + 1
        names.append(candidate)
    listed = str(names) if len(names) <= _SHOWN else f"[{str(names[:2])[1:-1]}, ...]"
    return f"add -- header=0 names={listed}"


def used(columns: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns of the option usecols, in the order of the file."""
    wanted = options.get("usecols")
    if wanted is None:
        return columns
    names = list(columns)
    chosen = {names[column] if isinstance(column, int) and 0 <= column < len(names) else column for column in wanted}
    for name in chosen - set(names):
        raise unknown_column("usecols", name, names)
    return {name: column for name, column in columns.items() if name in chosen}


def unknown_column(option: str, name: object, names: Iterable[str]) -> LoadError:
    """Return the error for an option that names a column that the file does not have."""
    columns = list(names)
    listed = f"the columns are {', '.join(columns)}" if len(columns) <= _SHOWN else ""
    return LoadError(f"{option}: the file has no column {name!r}", hint=did_you_mean(str(name), columns) or listed)


def dtypes_of(options: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, object]:
    """Return the types of the option dtype by column."""
    dtypes, names = options.get("dtype"), list(names)
    if isinstance(dtypes, Mapping):
        for name in dtypes:
            if name not in names:
                raise unknown_column("dtype", name, names)
        return dtypes
    return {} if dtypes is None else dict.fromkeys(names, dtypes)
