"""%pipedb diagram and plot, on each server."""

from xml.etree import ElementTree

import matplotlib as mpl
import pytest

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_a_diagram_of_the_schema(db, tmp_path):
    db('%sql CREATE TABLE parents (id INTEGER PRIMARY KEY, "<b>" TEXT)')
    db("%sql CREATE TABLE children (id INTEGER PRIMARY KEY, parent REFERENCES parents)")
    db("%sql CREATE TABLE alone (x)")
    drawn = db("%pipedb diagram").value
    assert [box.name for box in drawn.boxes] == ["alone", "children", "parents"]
    assert "  (parent) → parents" in str(drawn).splitlines()
    assert "<b>" not in drawn._repr_mimebundle_()["text/html"]
    assert [box.name for box in db("%pipedb diagram children parents --on db").value.boxes] == ["children", "parents"]
    assert not db("%pipedb diagram --columns none").value.boxes[1].rows
    assert db("%pipedb diagram --limit 1").value.note.startswith("The diagram shows 1 of 3 tables")
    file = tmp_path / "schema.svg"
    assert db(f"%pipedb diagram --to {file}").out == f"Wrote {file}.\n"
    assert ElementTree.parse(file).getroot().tag.endswith("svg")
    assert "must end with .svg or .mmd" in str(db.fails("%pipedb diagram --to x.png").error)
    assert "does not exist" in str(db.fails(f"%pipedb diagram --to {tmp_path}/no/x.svg").error)
    assert "did you mean children" in str(db.fails("%pipedb diagram childen").error)
    assert "--limit must be a whole number" in str(db.fails("%pipedb diagram --limit no").error)
    assert "no such" not in db("%pipedb help diagram").out


def test_plots_of_a_table(db):
    db('%sql CREATE TABLE f (delay, "my $ line", day, dist)')
    db(
        "%sql WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 99) "
        "INSERT INTO f SELECT i, 'c' || (i % 3), date('2024-01-01', '+' || i || ' days'), i * 1.5 FROM c"
    )
    db("%sql INSERT INTO f VALUES (NULL, NULL, NULL, NULL)")
    bars = db("%pipedb plot histogram f --x delay --bins 10")
    assert [patch.get_height() for patch in bars.value.axes.patches] == [10] * 10
    assert bars.lines == ["1 NULL in delay skipped."]
    assert bars.value.axes.get_xlabel() == "delay"
    assert bars.value.axes.get_title() == "f"
    assert len(db('%pipedb plot box f --x delay --group "my $ line" --on db').value.axes.get_xticklabels()) == 3
    assert len(db('%pipedb plot bar f --x "my $ line" --y dist').value.axes.patches) == 3
    medians = db('%pipedb plot bar f --x "my $ line" --y dist --agg median').value.axes
    assert (medians.get_ylabel(), medians.patches[0].get_height()) == ("median of dist", 75.0)
    assert len(db("%pipedb plot bar f --x delay --bins 4").value.axes.patches) == 5
    assert len(db("%pipedb plot line f --x day --y delay").value.axes.lines[0].get_xdata()) == 100
    assert len(db("%pipedb plot scatter f --x delay --y dist").value.axes.collections[0].get_offsets()) == 100
    db.names["most"] = 5
    assert (
        len(
            db('%pipedb plot scatter f --x delay --y dist --where "delay < :most -- so"')
            .value.axes.collections[0]
            .get_offsets()
        )
        == 5
    )
    db("%sql --save small SELECT delay AS d FROM f WHERE delay < :most + 2")
    assert sum(patch.get_height() for patch in db("%pipedb plot histogram --with small --x d").value.axes.patches) == 7


def test_a_plot_is_a_picture_with_text_on_how_to_save_it(db, tmp_path):
    import matplotlib.pyplot as plt

    db("%sql CREATE TABLE f AS SELECT 1234567 AS a UNION ALL SELECT 2345678")
    plot = db("%pipedb plot histogram f --x a").value
    assert repr(plot) == "Plot of f. Add --to FILE.png to save it, or call .save('FILE.png')."
    assert plot._repr_mimebundle_()["image/png"].startswith("iVBOR")
    assert plt.get_fignums() == []  # otherwise the cell would show it again
    plot.figure.canvas.draw()
    assert "1,600,000" in [label.get_text() for label in plot.axes.get_xticklabels()]
    for name, start in (("f.png", b"\x89PNG"), ("f.svg", b"<?xml"), ("f.pdf", b"%PDF")):
        assert db(f"%pipedb plot histogram f --x a --to {tmp_path / name}").lines == [f"Wrote {tmp_path / name}."]
        assert (tmp_path / name).read_bytes().startswith(start)
    assert "use a name that ends in .png, .svg or .pdf" in db.fails("%pipedb plot histogram f --x a --to f.doc").out
    assert "cannot write no/f.png: No such file" in db.fails("%pipedb plot histogram f --x a --to no/f.png").out


def test_years_have_no_thousands_separator(db):
    db("%sql CREATE TABLE f AS SELECT value AS year, value * 10 AS n FROM generate_series(1998, 2020)")
    axes = db("%pipedb plot line f --x year --y n").value.axes
    axes.figure.canvas.draw()
    assert {"2000", "2020"} <= {label.get_text() for label in axes.get_xticklabels()}
    assert "20,000" in {label.get_text() for label in axes.get_yticklabels()}


def test_invalid_options_and_columns_of_a_plot(db):
    db("%sql CREATE TABLE f (a)")
    for line, says in {
        "histogram f": "--x COLUMN is missing",
        "histogram --x a": "requires a TABLE, or --with NAME",
        "histogram f --x a --y b": "counts the rows",
        "scatter f --x a": "requires --y",
        "line f --x a --bins 3": "has none",
        "box f --x a --agg mean": "--agg is for plot bar and plot line",
        "bar f --x a --agg mean": "--agg mean requires --y",
        "bar f --x a --y a --agg avg": "--agg must be one of",
        "pie f --x a": "KIND must be one of",
        "bar f --x a --where 1;2": "a single SQL expression without ;",
        "bar f --x a --bins 0": "whole number of at least 1",
        "bar f --x aa": "did you mean a?",
        "bar ff --x a": "did you mean f?",
        "bar f --x a": "f is empty",
    }.items():
        assert says in str(db.fails(f"%pipedb plot {line}").error)
