"""Diagrams of a schema: complete, without overlaps, the same as SVG, text and Mermaid."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

from pipemagic.errors import UnknownName
from pipemagic.explore.diagrams import diagram
from pipemagic.explore.schema import Column, ForeignKey, Relation, Schema

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ['we "ird"', "<script>alert(1)</script>", "select", "日本語", "\U0001f600 x", "a\nb\x1b", "--", "x" * 200]


def table(name, columns="id", keys=(), kind="table"):
    """Return a table whose first column is the primary key; ``keys`` are (columns, table[, references])."""
    made = [Column(word, "INTEGER", key=int(not place)) for place, word in enumerate(columns.split())]
    return Relation(name, kind, tuple(made), foreign_keys=tuple(ForeignKey(tuple(k[0].split()), *k[1:]) for k in keys))


def schema(*relations):
    return Schema(1, tuple(sorted(relations, key=lambda relation: relation.name)))


SHOP = schema(
    table("customers", "id name"),
    table("orders", "id customer", [("customer", "customers", ("id",))]),
    table("lines", "order_id n product", [("order_id", "orders"), ("product", "Products")]),
    table("products", "id supplier", [("supplier", "suppliers")]),
    table("suppliers", "id best", [("best", "products")]),  # a circle
    table("people", "id boss", [("boss", "people")]),
    table("returns", "id order_id n", [("order_id n", "lines", ("order_id", "n")), ("id", "ghosts")]),
    table("totals", "id sum", kind="view"),
)


def boxes_of(drawn):
    layout = drawn.layout
    return [(*layout.corners[place], *box.size) for place, box in enumerate(drawn.boxes)]


def overlap(one, other):
    (x, y, width, height), (x2, y2, width2, height2) = one, other
    return x < x2 + width2 and x2 < x + width and y < y2 + height2 and y2 < y + height


def random_schema(count, seed=7):
    """Return tables that refer to earlier ones, by a generator with a fixed seed."""
    state, found = seed, []
    for number in range(count):
        keys = []
        for key in range(number % 3):
            state = (state * 1103515245 + 12345) % 2**31
            keys.append((f"r{key}", f"t{state % number}"))
        found.append(table(f"t{number}", " ".join(["id", *(f"r{key}" for key in range(len(keys))), "a", "b"]), keys))
    return schema(*found)


@pytest.mark.parametrize("given", [SHOP, random_schema(60), schema(*(table(name) for name in HOSTILE))])
def test_boxes_do_not_overlap(given):
    drawn = diagram(given, columns="all")
    found = boxes_of(drawn)
    assert not [pair for pair in combinations(found, 2) if overlap(*pair)]
    for x, y, width, height in found:
        assert x >= 0
        assert y >= 0
        assert x + width <= drawn.layout.width + 0.01
        assert y + height <= drawn.layout.height + 0.01


def test_tables_stand_to_the_right_of_those_that_they_refer_to():
    drawn = diagram(SHOP)
    place = {box.name: drawn.layout.corners[number][0] for number, box in enumerate(drawn.boxes)}
    assert place["customers"] < place["orders"] < place["lines"] < place["returns"]
    assert place["ghosts"] < place["returns"]


def test_every_key_is_an_arrow_at_its_column():
    drawn = diagram(SHOP)
    assert len(drawn.arrows) == sum(len(relation.foreign_keys) for relation in SHOP.relations) == 8
    root = ElementTree.fromstring(drawn.svg())
    hints = {
        element.find(f"{SVG}title").text for element in root.iter(f"{SVG}g") if element.find(f"{SVG}title") is not None
    }
    assert "returns(order_id, n) → lines(order_id, n)" in hints
    assert "people(boss) → people(id)" in hints
    assert "lines(product) → Products(id)" in hints


def test_views_and_missing_tables_are_dashed():
    root = ElementTree.fromstring(diagram(SHOP).svg())
    dashed = [rect for rect in root.iter(f"{SVG}rect") if rect.get("stroke-dasharray")]
    assert len(dashed) == 4  # totals and ghosts, each with a head
    words = {text.text for text in root.iter(f"{SVG}text")}
    assert {"view", "missing", "ghosts", "totals"} <= words


def test_a_diagram_as_text():
    lines = str(diagram(SHOP, ["orders"])).splitlines()
    assert lines == [
        "customers",
        "  id    INTEGER  PK",
        "  name  INTEGER",
        "lines",
        "  order_id  INTEGER  PK FK",
        "  n         INTEGER",
        "  product   INTEGER  FK",
        "  (order_id) → orders",
        "  (product) → Products",
        "orders",
        "  id        INTEGER  PK",
        "  customer  INTEGER  FK",
        "  (customer) → customers(id)",
    ]


def test_hostile_names_stay_text():
    given = schema(
        *(table(name, f"id {name.replace(' ', '_')}") for name in HOSTILE if "\n" not in name), table("a\nb")
    )
    drawn = diagram(given)
    page = drawn._repr_mimebundle_()["text/html"]
    assert "<script>" not in page
    root = ElementTree.fromstring(drawn.svg())
    assert "<script>alert(1)</script>" in {text.text for text in root.iter(f"{SVG}text")}
    assert "\x1b" not in str(drawn)
    assert "a\nb" not in str(drawn)
    assert len(drawn.mermaid.splitlines()) == 1 + sum(2 + len(box.rows) for box in drawn.boxes)


def test_a_thousand_tables_show_only_the_columns_of_keys():
    drawn = diagram(random_schema(1000))
    assert drawn.note == "The diagram shows only key columns because there are many tables."
    assert {name for box in drawn.boxes for _, name, _ in box.rows} == {"id", "r0", "r1"}


def test_a_diagram_as_mermaid():
    drawn = diagram(SHOP, ["orders"])
    assert drawn.mermaid.splitlines() == [
        "erDiagram",
        '    "customers" {',
        "        INTEGER id PK",
        "        INTEGER name",
        "    }",
        '    "lines" {',
        "        INTEGER order_id PK, FK",
        "        INTEGER n",
        "        INTEGER product FK",
        "    }",
        '    "orders" {',
        "        INTEGER id PK",
        "        INTEGER customer FK",
        "    }",
        '    "lines" }o--|| "orders" : "order_id"',
        '    "orders" }o--|| "customers" : "customer"',
    ]
    assert drawn._repr_mimebundle_()["text/vnd.mermaid"] == drawn.mermaid


def test_mermaid_replaces_other_characters():
    odd = Relation('a "b" %', columns=(Column("größe 1"), Column("1st", "DECIMAL(10, 2)"), Column("")))
    assert diagram(schema(odd)).mermaid.splitlines() == [
        "erDiagram",
        '    "a _b_ _" {',
        "        ANY größe_1",
        "        DECIMAL(10__2) _1st",
        "        ANY _",
        "    }",
    ]


def test_mermaid_reads_no_column_as_a_key():
    names = ("pk", "Fk", "UK", "pk-1", "pkü", "pk_1", "uk2", "spk")
    drawn = diagram(schema(Relation("t", columns=tuple(map(Column, names)))))
    shown = [line.split()[1] for line in drawn.mermaid.splitlines()[2:-1]]
    assert shown == ["_pk", "_Fk", "_UK", "_pk-1", "_pkü", "pk_1", "uk2", "spk"]


def test_a_limit_keeps_the_tables_with_the_most_foreign_keys():
    drawn = diagram(SHOP, limit=3)
    assert [box.name for box in drawn.boxes][:3] == ["lines", "orders", "products"]
    assert drawn.note == "The diagram shows 3 of 8 tables, those with the most foreign keys."
    assert len(diagram(SHOP, limit=50).boxes) == 9


def test_columns_can_be_left_out():
    assert all(not box.rows for box in diagram(SHOP, columns="none").boxes)
    names = {box.name: [name for _, name, _ in box.rows] for box in diagram(SHOP, columns="keys").boxes}
    assert names["customers"] == ["id"]
    assert names["lines"] == ["order_id", "product"]


def test_a_wide_table_shows_its_first_columns():
    drawn = diagram(schema(table("wide", " ".join(f"c{number}" for number in range(100)))))
    assert str(drawn).splitlines()[-1] == "  … 60 more"


def test_an_unknown_table():
    with pytest.raises(UnknownName, match="order"):
        diagram(SHOP, ["order"])


def test_an_empty_schema():
    assert str(diagram(schema())) == "The database has no tables."
    assert "The database has no tables." in diagram(schema())._repr_mimebundle_()["text/html"]
