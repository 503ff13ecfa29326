"""Measure the notes on the statements of the course, the documentation and the tables of cases, beside SQLite's parser.

Most cells need no parsing: `FOUND_IN` skips them. A statement is measured as in a cell that runs it once: nothing of it
is cached.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import apsw

from benchmarks.lines import Line, below
from benchmarks.measure import Plan, seconds
from pipemagic.explore.lint import lint
from pipemagic.explore.schema import Relation
from pipemagic.hrana.stream import Tx
from pipemagic.notebook import sql_options
from pipemagic.notebook.notes import FOUND_IN
from pipemagic.session.schema_cache import SchemaCache
from pipemagic.sql import parse, split, tokenizer

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"^(?:[\w, ]+=\s*)?%sql\s+(.*)$", re.MULTILINE)
FENCE = re.compile(r"^```ipython\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NESTED = "SELECT n FROM " + "(SELECT n FROM " * 180 + "flights" + ")" * 180
"""180 subqueries, each in the one around it."""


def measure(plan: Plan) -> list[Line]:
    """Return the time of the notes on a statement: the median, the 95th percentile and the longest."""
    rounds = 2 if plan.short else 10
    samples, prepared = [], []
    database = apsw.Connection(":memory:")
    for text, tables in _statements():
        samples.append(min(seconds(partial(_notes, text, tables)) for _ in range(rounds)))
        prepared.append(min(seconds(partial(_prepare, database, text)) for _ in range(rounds)))
    nested = [seconds(partial(_notes, NESTED, {})) for _ in range(rounds)]
    samples.sort()
    prepared.sort()
    last = len(samples) - 1
    return [
        Line("notes on a statement, median", "s", [samples[last // 2]], "sqlite", [prepared[last // 2]]),
        Line("95th percentile", "s", [samples[last * 95 // 100]], "sqlite", [prepared[last * 95 // 100]], below(0.001)),
        Line("longest", "s", [samples[-1]], "sqlite", [prepared[-1]]),
        Line("180 nested subqueries", "s", nested, aim=below(0.02)),
    ]


def _notes(text: str, tables: dict[str, Relation]) -> None:
    tokenizer._tokens_of_short.cache_clear()
    if FOUND_IN.search(text):
        lint(text, {}, tables, variables={"code": "AA"})


def _prepare(database: apsw.Connection, text: str) -> None:
    try:
        database.execute(f"EXPLAIN {text}", can_cache=False)
    except apsw.Error:  # it has no tables: parsing is what is compared
        return


def _statements() -> Iterator[tuple[str, dict[str, Relation]]]:
    """Yield each statement and the tables that are known where it runs."""
    for cells in _sources():
        schema = SchemaCache(lambda _: None)
        for text in (text for cell in cells for text in _sql(cell)):
            schema.update([parse(text)], Tx.NONE)
            yield text, {relation.name.lower(): relation for relation in schema.tables}


def _sources() -> Iterator[list[str]]:
    """Yield the cells of each notebook, page and table of cases."""
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        yield ["".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"]]
    for path in sorted((ROOT / "docs").rglob("*.md")):
        yield FENCE.findall(path.read_text("utf-8"))
    harness = (ROOT / "tests" / "notebook" / "test_sql_cases.py").read_text("utf-8")
    tables = re.findall(r'^TABLES = """(.*?)"""', harness, re.MULTILINE | re.DOTALL)
    for path in sorted((ROOT / "tests" / "notebook" / "sql_cases").glob("*.toml")):
        yield [*tables, *(row["cell"] for row in tomllib.loads(path.read_text("utf-8"))["case"])]


def _sql(source: str) -> Iterator[str]:
    """Yield the statements of a cell."""
    head, _, body = source.lstrip().partition("\n")
    magics = [(head.removeprefix("%%sql"), body)] if head.startswith("%%sql") else []
    for line, cell in [*magics, *((match[1], None) for match in LINE.finditer(source))]:
        try:
            _, text = sql_options.parse(line, cell, {})
        except Exception as error:  # noqa: BLE001 - pages show wrong lines, too
            print(f"skipped: {error}".partition("\n")[0], file=sys.stderr)
            continue
        yield from (statement.text for statement in split(text))
