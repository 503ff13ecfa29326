"""The rows of EXPLAIN without addresses of the process, which would help an attacker.

SQLite shows the address of a virtual table (``vtab:55D1C0FFEE08``), and for VCheck the bytes of a structure that begins
with one, as if they were text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw

from pipemagic.hrana.values import SqlValue

_OPCODE, _P4 = 1, 5
_ADDRESS = re.compile(r"vtab:[0-9A-Fa-fx]+\Z")
_TEXTS = {"VDestroy", "VFilter", "Variable"}
"""Opcodes whose P4 is a text: a name, or what a virtual table has planned."""


def without_addresses(cursor: apsw.Cursor) -> Iterator[tuple[SqlValue, ...]]:
    """Yield the rows of EXPLAIN (not of EXPLAIN QUERY PLAN, which has no addresses).

    Of a VCheck, only the first two columns have values.
    """
    address = 0
    while True:
        try:
            row = next(cursor)
        except StopIteration:
            return
        except UnicodeDecodeError:  # the bytes of a VCheck are no text, as a rule: nothing of the row can be read
            row = (address, "VCheck")
        address = int(row[0] or 0) + 1
        if row[_OPCODE] == "VCheck":
            yield (*row[:2], None, None, None, None, None, None)
        else:
            yield (*row[:_P4], _masked(row[_OPCODE], row[_P4]), *row[_P4 + 1 :])


def _masked(opcode: SqlValue, p4: SqlValue) -> SqlValue:
    if isinstance(p4, str) and str(opcode).startswith("V") and opcode not in _TEXTS and _ADDRESS.match(p4):
        return "vtab"
    return p4
