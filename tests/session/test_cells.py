"""From text to statements with arguments."""

import pytest

from pipemagic.errors import ParameterError, SessionError
from pipemagic.hrana.messages import NamedArg, Stmt
from pipemagic.hrana.values import Integer, Text
from pipemagic.session.cells import read


def test_each_statement_gets_its_own_parameters():
    cell = read("SELECT :a, @b; SELECT $a; SELECT 1", {"a": 1, "b": "x", "unused": object()})
    assert list(cell.stmts) == [
        Stmt("SELECT :a, @b", named_args=[NamedArg(":a", Integer("1")), NamedArg("@b", Text("x"))]),
        Stmt("SELECT $a", named_args=[NamedArg("$a", Integer("1"))]),
        Stmt("SELECT 1"),
    ]


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing\n;;", "/* SELECT 1 */"])
def test_a_cell_without_sql_is_refused(text):
    with pytest.raises(SessionError, match="no SQL"):
        read(text)


@pytest.mark.parametrize("sql", ["SELECT ?", "SELECT ?1"])
def test_parameters_without_a_name_are_refused_with_a_hint(sql):
    with pytest.raises(ParameterError, match=r"line 2: the parameter .* has no name\nwrite :name"):
        read(f"\n{sql}", {})


def test_a_name_without_a_value_is_told_with_its_line_and_what_is_near():
    with pytest.raises(ParameterError, match=r"line 3: :citi has no value.*'citi'\ndid you mean :city\?"):
        read("SELECT 1;\n\nSELECT :citi", {"city": 1, 7: 2})
    with pytest.raises(ParameterError, match=r"assign it first: x = \.\.\., or add the key to --params"):
        read("SELECT :x", {})
    with pytest.raises(ParameterError, match=r"pass params=\{"):
        read("SELECT :x")


def test_a_value_that_sql_cannot_hold_is_refused_by_name():
    with pytest.raises(ParameterError, match=":rows"):
        read("SELECT :rows", {"rows": [1, 2]})


def test_colons_in_strings_and_comments_are_no_parameters():
    assert read("SELECT ':a' -- :b", {}).stmts == (Stmt("SELECT ':a'"),)
