"""%pipedb diagram and plot, on each of the servers."""

from xml.etree import ElementTree


def test_a_diagram_of_the_schema(db, tmp_path):
    db('%sql CREATE TABLE parents (id INTEGER PRIMARY KEY, "<b>" TEXT)')
    db("%sql CREATE TABLE children (id INTEGER PRIMARY KEY, parent REFERENCES parents)")
    db("%sql CREATE TABLE alone (x)")
    drawn = db("%pipedb diagram").value
    assert [box.name for box in drawn.boxes] == ["alone", "children", "parents"]
    assert "  (parent) → parents" in str(drawn).splitlines()
    assert "<b>" not in drawn._repr_mimebundle_()["text/html"]
    assert [box.name for box in db("%pipedb diagram children parents --on db").value.boxes] == ["children", "parents"]
    assert not db("%pipedb diagram --columns none").value.boxes[1].columns
    assert db("%pipedb diagram --limit 1").value.note.startswith("1 of 3 tables")
    file = tmp_path / "schema.svg"
    assert db(f"%pipedb diagram --to {file}").out == f"Wrote {file}.\n"
    assert ElementTree.parse(file).getroot().tag.endswith("svg")
    assert "should end with .svg" in str(db.fails("%pipedb diagram --to x.png").error)
    assert "did you mean children" in str(db.fails("%pipedb diagram childen").error)
    assert "--limit is a whole number" in str(db.fails("%pipedb diagram --limit no").error)
    assert "no such" not in db("%pipedb help diagram").out
