"""The course, the examples of the documentation and the other notebooks get no note that they do not show on purpose.

The tables are those that their statements create. nbval and tests/docs/test_examples.py compare the outputs of runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from page_examples import PAGES, cells, name

from pipemagic.errors import UsageError
from pipemagic.explore.hints.broken_statement import Grammar
from pipemagic.explore.lint import lint
from pipemagic.hrana.stream import Tx
from pipemagic.notebook import sql_options
from pipemagic.session.schema_cache import SchemaCache
from pipemagic.sql import parse, split

ROOT = Path(__file__).parents[2]
TEACH_NOTES = {
    "analysts/explore",  # the page on notes
    "notebooks/1-queries",  # = NULL, and the division of integers
    "solutions/1-queries",
}
TEACH_NOTES_ON_EMPTY_RESULTS = {  # NOT IN a list with NULL: the statement alone gets no note
    "notebooks/4-subqueries-windows",
    "solutions/4-subqueries-windows",
}
LINE = re.compile(r"^(?:[\w, ]+=\s*)?%sql\s+(.*)$", re.MULTILINE)


def notebooks() -> list[Path]:
    return sorted([*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "solutions").glob("*.ipynb")])


def sources() -> dict[str, list[str]]:
    """Return the cells of each page and notebook by its name."""
    found = {name(page): [cell.source for cell in cells(page)] for page in PAGES}
    for path in notebooks():
        code = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
        found[path.relative_to(ROOT).with_suffix("").as_posix()] = ["".join(cell["source"]) for cell in code]
    return found


SOURCES = sources()


def statements(source: str) -> Iterator[str]:
    """Yield the SQL of a cell."""
    head, _, body = source.lstrip().partition("\n")
    magics = [(head.removeprefix("%%sql"), body)] if head.startswith("%%sql") else []
    magics += [(match[1], None) for match in LINE.finditer(source)]
    for line, cell in magics:
        with suppress(UsageError):
            options, text = sql_options.parse(line, cell, {})
            if not (options.quiet or options.jinja):
                yield from (statement.text for statement in split(text))


@pytest.mark.parametrize("example", [name for name, found in SOURCES.items() if any(map(str.strip, found))])
def test_no_note(example):
    schema, grammar, notes = SchemaCache(lambda _: None), Grammar(), []
    for text in (text for source in SOURCES[example] for text in statements(source)):
        schema.update([parse(text)], Tx.NONE)
        tables = {relation.name.lower(): relation for relation in schema.tables}
        if grammar.reads(text):  # an example of an error gets a hint instead
            notes += [(text, note) for note in lint(text, {}, tables)]
    assert not notes or example in TEACH_NOTES
    assert notes or example not in TEACH_NOTES


def test_the_statements_are_found():
    assert sum(1 for found in SOURCES.values() for source in found for _ in statements(source)) > 400
    assert list(statements("late = %sql SELECT 1\n%sql -o x SELECT 2")) == ["SELECT 1", "SELECT 2"]
    assert list(statements("%%sql --atomic\nSELECT 1;\nSELECT 2")) == ["SELECT 1", "SELECT 2"]


def test_stored_outputs_contain_only_the_notes_that_are_taught():
    noted = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in notebooks()
        if "pipemagic-notes" in path.read_text("utf-8")
    }
    assert noted == TEACH_NOTES - {"analysts/explore"} | TEACH_NOTES_ON_EMPTY_RESULTS
