"""One table of cases: SQL, and the notes or the error that a cell shows for it (`sql_cases/*.toml`).

Each row has the text of a ``cell``, and one of

- ``notes``: the lines below the cell; ``[]`` for right code, which gets none;
- ``error``: what the cell prints when it fails, with its hint;
- ``contains``: parts of what it prints, where the rest is not the subject.

``before`` are cells that run first, ``variables`` are those of the notebook. ``sqld`` and ``sqld_notes`` are the texts
of a server whose own messages differ. ``servers`` restricts a row, and ``why`` says why.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).with_name("sql_cases")
FILES = sorted(path.stem for path in FOLDER.glob("*.toml"))
READS = re.compile(r"%?%sql\s+(SELECT|EXPLAIN)\b[^;]*\Z", re.IGNORECASE)
KEYS = {"cell", "notes", "error", "contains", "before", "variables", "sqld", "sqld_notes", "servers", "why"}
TABLES = """%%sql
CREATE TABLE flights (id INTEGER PRIMARY KEY, carrier TEXT, flight TEXT, dep_delay INTEGER, distance REAL,
    seats BIGINT, day DATE, departed DATETIME, price DECIMAL(8, 2));
CREATE TABLE airlines (carrier TEXT PRIMARY KEY, name TEXT NOT NULL, parent TEXT);
CREATE TABLE days (day DATE, month TEXT, year INTEGER, "order" INTEGER);
INSERT INTO flights VALUES (1, 'AA', '11', 7, 2475.0, 190, '2013-01-01', '2013-01-01 05:33:00', 9.5),
    (2, 'UA', '1545', -3, 1400.0, 160, '2013-01-02', '2013-01-02 18:00:00', 10),
    (3, 'B6', '725', NULL, 1576.0, 150, '2013-12-31', '2013-12-31 00:00:00', NULL);
INSERT INTO airlines VALUES ('AA', 'American Airlines', NULL), ('UA', 'United Air Lines', 'UAL'),
    ('B6', 'JetBlue', NULL);
INSERT INTO days VALUES ('2013-01-01', 'January', 2013, 1)
"""


def session(db):
    return db.ip.magics_manager.registry["PipeMagics"].session


def rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))["case"]


@pytest.mark.parametrize("server", ["embedded", "sqld"])
@pytest.mark.parametrize("name", FILES)
def test_cases(db, server, name):
    schema = session(db).connection().schema
    schema.start()
    db(TABLES)
    assert schema.ready.wait(30)
    wrong = [
        line for row in rows(name) if server in row.get("servers", [server]) for line in differences(db, row, server)
    ]
    assert not wrong, "\n\n".join(wrong)


def differences(db, row: dict[str, Any], server: str) -> Iterator[str]:
    """Yield how a cell differs from its row."""
    db.names.update(row.get("variables", {}))
    for cell in row.get("before", []):
        db(cell)
    session(db).connection().schema.ready.wait(30)  # with the tables that the cells above created
    cell = db.run(row["cell"])
    error, expected = row.get("error"), row.get("notes")
    if server == "sqld":
        error, expected = row.get("sqld", error), row.get("sqld_notes", expected)
    if (cell.error is not None) != (error is not None) and "contains" not in row:
        yield f"{row['cell']}\n{'fails' if cell.error else 'does not fail'}:\n{cell.out}"
    elif error is not None and cell.out.strip() != error.strip():
        yield f"{row['cell']}\nis refused with\n{cell.out.strip()}\ninstead of\n{error.strip()}"
    elif expected is not None and notes(cell) != expected:
        yield f"{row['cell']}\nhas the notes\n{notes(cell)}\ninstead of\n{expected}"
    printed = "\n".join([cell.out, *(data.get("text/plain", "") for data in cell.shown)])
    for part in row.get("contains", []):
        if part not in printed:
            yield f"{row['cell']}\nprints\n{printed}\nwithout\n{part}"
    failed = cell.error is not None and ";" not in row["cell"]
    restore(db, row, changed="before" in row or not (failed or READS.match(row["cell"])))


def restore(db, row: dict[str, Any], *, changed: bool) -> None:
    """Undo what a row changed: its transaction, its tables, the rows that it wrote, its variables."""
    session(db).connection().close()
    for name in row.get("variables", {}):
        db.names.pop(name, None)
    if not changed:
        return
    others = db(
        "%sql SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND type IN ('view', 'trigger')"
    )
    tables = db("%sql SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND type = 'table'")
    for type_, name in (*others.value.itertuples(index=False), *tables.value.itertuples(index=False)):
        db(f'%sql --quiet DROP {type_} IF EXISTS "{name}"')
    db(TABLES)


def notes(cell) -> list[str]:
    """Return the notes below a cell."""
    found = [data["text/plain"] for data in cell.shown if "pipemagic-notes" in data.get("text/html", "")]
    return "\n".join(found).split("\n") if found else []


def test_every_row_says_what_it_expects():
    for name in FILES:
        for row in rows(name):
            assert row.keys() <= KEYS
            assert row.keys() & {"notes", "error", "contains"}
            assert "why" in row or "servers" not in row
