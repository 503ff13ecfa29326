"""Names of tables as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.errors import UnsupportedError
from pipemagic.sql import quote, table_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sales", "sales"), ("main.sales", "sales"), ("MAIN . sales", "sales"), ('"main"."sales"', "sales"),
        ("main.my sales", "my sales"), ("my sales", "my sales"), ('"sales"', "sales"), ("[my sales]", "my sales"),
        ("`main`.[sales]", "sales"), ('"main.sales"', "main.sales"), ('main."main.sales"', "main.sales"),
        ('"we""ird"', 'we"ird'), ('we"ird', 'we"ird'), ('"open', '"open'), ("a.b", "a.b"), ("main.", "main."),
        (".main", ".main"), ("", ""), ("maintenance.x", "maintenance.x"),
    ],
)  # fmt: skip
def test_the_name_of_an_existing_table(text, name):
    assert table_name(text) == name


@pytest.mark.parametrize("text", ["public.sales", "flights.csv", '"public"."sales"'])
def test_a_new_table_has_no_point_without_quotes(text):
    with pytest.raises(UnsupportedError, match="there is no schema"):
        table_name(text, new=True)


@pytest.mark.parametrize("text", ["temp.t", "TEMP.t", '"temp"."t"'])
@pytest.mark.parametrize("new", [True, False])
def test_temporary_tables_are_refused(text, new):
    with pytest.raises(UnsupportedError, match="is a temporary table, which only cells can see"):
        table_name(text, new=new)


@given(st.text(st.characters(exclude_characters="\0"), min_size=1))
def test_every_name_can_be_written_in_quotes(name):
    for new in (False, True):
        assert table_name(quote(name), new=new) == name
        assert table_name(f"main.{quote(name)}", new=new) == name
