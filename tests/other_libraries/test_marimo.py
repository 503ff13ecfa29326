"""`marimo export` runs an app with SQL cells on an engine."""

from __future__ import annotations

import json

from page_examples import DOCS
from page_sections import fences

PAGE = DOCS / "analysts" / "libraries.md"
CELLS = """
@app.cell
def _(engine, mo):
    made = mo.sql("CREATE TABLE leg (n INTEGER, day DATE, data BLOB)", engine=engine, output=False)
    written = mo.sql("INSERT INTO leg VALUES (9007199254740995, '2013-07-01', x'00ff'), (NULL, NULL, NULL)",
                     engine=engine, output=False)
    return (made, written)


@app.cell
def _(engine, mo, made, written):
    legs = mo.sql("SELECT * FROM leg ORDER BY n DESC", engine=engine)
    print("rows:", legs.rows() if hasattr(legs, "rows") else list(legs.itertuples(index=False, name=None)))
    return (legs,)


@app.cell
def _(mo, made, written):
    import os
    import pipemagic.dbapi

    plain = pipemagic.dbapi.connect(os.environ["LEGS_URL"], os.environ["PIPEMAGIC_TOKEN"])
    days = mo.sql("SELECT day FROM leg WHERE day IS NOT NULL", engine=plain)
    print("days:", len(days))
    return


if __name__ ==
"""


def export(libraries, folder, text):
    """Export an app with its outputs; return the text of the page, in which marimo quotes JSON several times."""
    (folder / "app.py").write_text(text, "utf-8")
    libraries.run(folder, "marimo", "--quiet", "export", "html", "app.py", "-o", "app.html")
    return (folder / "app.html").read_text("utf-8")


def test_the_app_of_the_page_shows_the_value(libraries, target, tmp_path):
    [app] = fences(PAGE, "marimo", "python")
    page = export(libraries, tmp_path, target.addressed(app))
    assert r"quot;9007199254740993\u0026" in page  # the value in the table; the SQL is there in other forms
    assert target.token not in page


def test_cells_write_and_read_with_an_engine_and_a_connection(libraries, target, tmp_path, monkeypatch):
    monkeypatch.setenv("LEGS_URL", target.url)
    [app] = fences(PAGE, "marimo", "python")
    page = export(libraries, tmp_path, target.addressed(app).replace("if __name__ ==", CELLS.strip()))
    assert target.rows("SELECT * FROM leg") == [(9007199254740995, "2013-07-01", b"\x00\xff"), (None, None, None)]
    assert json.dumps("rows: [(9007199254740995, '2013-07-01', b'\\x00\\xff'), (None, None, None)]\n")[1:-1] in page
    assert "days: 1" in page
