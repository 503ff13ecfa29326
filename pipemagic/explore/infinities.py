"""Infinities in the cells of a row. JSON has none: null comes for them, or what is no JSON at all, from some servers.

So NULL is sent in their place, and one more cell of the row tells where they were: a sign for each of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipemagic.hrana.values import Float, SqlValue, Text, Value, decode


def signs(cells: Sequence[str]) -> str:
    """Give the expression for the signs of some cells: + and - for infinities, a point for all else."""
    if len(cells) > 1:  # as a balanced tree: SQLite takes expressions 1000 deep
        middle = len(cells) // 2
        return f"({signs(cells[:middle])} || {signs(cells[middle:])})"
    (cell,) = cells
    # The type first: in a column of text 'Inf' = 9e999.
    return (
        f"CASE WHEN typeof({cell}) <> 'real' THEN '.' "
        f"WHEN {cell} = 9e999 THEN '+' WHEN {cell} = -9e999 THEN '-' ELSE '.' END"
    )


def sent(cells: Sequence[str]) -> str:
    """Give what is sent of some cells: they, and their signs."""
    finite = (f"CASE WHEN typeof({cell}) = 'real' AND abs({cell}) = 9e999 THEN NULL ELSE {cell} END" for cell in cells)
    return ", ".join([*finite, signs(cells)])


def lacks_sign(value: Value) -> bool:
    """Return True for an infinity whose sign the server did not send."""
    return isinstance(value, Float) and value.value is None and not value.sign


def decoded(row: Sequence[Value]) -> tuple[SqlValue, ...]:
    """Give the values of a row whose last cell holds the signs."""
    *cells, last = row
    found = last.value if isinstance(last, Text) else ""
    return tuple(decode(cell) if sign == "." else float(f"{sign}inf") for cell, sign in zip(cells, found, strict=True))
