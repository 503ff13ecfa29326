"""%%sql --jinja: templates and their errors, on both servers."""

from __future__ import annotations

import pytest

from pipemagic.errors import ParameterError, StatementError, TemplateError, UnsupportedError, UsageError


def test_a_template_writes_sql_binds_values_and_quotes_names(db):
    db("table, columns, hostile, ids = 'we`ird \"t\"', ['a', 'b c'], \"x'); DROP TABLE t; --\", [1, 3]")
    db("%%sql --jinja\nCREATE TABLE {{ table | name }} ({{ columns | name }})")
    db("%%sql --jinja\nINSERT INTO {{ table | name }} VALUES\n{% for i in range(1, 4) -%}\n"
       "{{ ', ' if not loop.first }}({{ i }}, {{ hostile | bind }})\n{%- endfor %}")  # fmt: skip
    db("top = 9")
    where = "WHERE a IN {{ ids | bind }} AND a < :top"
    frame = db(f"%%sql --jinja\nSELECT a, {{{{ '`b c`' }}}} AS b FROM {{table}} {where}").value
    assert frame.to_dict("list") == {"a": [1, 3], "b": [db.names["hostile"]] * 2}
    assert db("%sql --jinja SELECT 1 AS a{% if false %}, 2 AS b{% endif %}").value.columns.tolist() == ["a"]
    assert db("%%sql\nSELECT '{{ 1 + 1 }} {% x %}' AS a").value["a"].tolist() == ["{{ 1 + 1 }} {% x %}"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("SELECT\n{{ citi }}", r"^line 2: 'citi' is undefined\nHint: did you mean city\?$"),
        ("SELECT {{ nothing }}", r"^line 1: 'nothing' is undefined\nHint: assign it first: nothing = \.\.\.$"),
        ("SELECT 1,\n\n{{ citi | bind }}", "^line 3: 'citi' is undefined"),
        ("{% for x in citi %}{% endfor %}", "^line 1: 'citi' is undefined"),
        ("SELECT {{ city.nope }}", "^line 1: 'str object' has no attribute 'nope'"),
        ("SELECT 1;\n{% if %}", "^line 2: Expected an expression"),
        ("SELECT {{ city | nope }}", "^line 1: No filter named 'nope'"),
        ("SELECT 1;\n{{ 1 / 0 }}", "^line 2: ZeroDivisionError: division by zero"),
        ("SELECT {{ 5 | name }}", "^line 1: the value of | name must be a name, not int"),
        ("{% include 'x' %}", "^line 1: TypeError: no loader for this environment"),
        ("{{ city.__class__.__mro__ }}", "^line 1: .*(unsafe|undefined)"),
    ],
)
def test_an_error_in_a_template_has_its_line(shell, template, message):
    shell("city = 'Lom'")
    with pytest.raises(TemplateError, match=message):
        raise shell.fails(f"%%sql --jinja {template}\n-- end").error


def test_an_error_in_the_rendered_sql_names_the_rendered_template(db, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = db.fails("%%sql --jinja\n{% for i in [1, 2] %}SELECT {{ i }};\n{% endfor %}SELECT nope").error
    assert isinstance(error, StatementError)
    assert "statement 3 of 3, the rendered template, line 4:\n  SELECT nope\n         ^" in error.message
    (tmp_path / "x.sql").write_text("SELECT 1;\n{{ 'SELECT :nope' }}")
    with pytest.raises(ParameterError, match=r"^x.sql as rendered, line 2: :nope has no value"):
        raise db.fails("%sql --jinja --file x.sql").error
    (tmp_path / "x.sql").write_text("SELECT 1;\n{{ nope }}")
    with pytest.raises(TemplateError, match=r"^x.sql, line 2: 'nope' is undefined"):
        raise db.fails("%sql --jinja --file x.sql").error


def test_bound_values_hide_no_variables(db):
    db("bound_1, value = 'mine', 'bound'")
    row = db("%sql --jinja SELECT {{ value | bind }} AS a, :bound_1 AS b").value.iloc[0]
    assert row.tolist() == ["bound", "mine"]


def test_a_template_may_be_saved_unless_it_binds(db):
    db("n = 3")
    db("%sql --jinja --save three SELECT {{ n }} AS n")
    db("n = 4")
    assert db("%sql --with three SELECT n FROM three").value["n"].tolist() == [3]
    with pytest.raises(UsageError, match=r"--save cannot store the values of \| bind"):
        raise db.fails("%sql --jinja --save x SELECT {{ n | bind }} AS n").error


def test_without_the_package_the_error_shows_how_to_install_it(shell, monkeypatch):
    monkeypatch.setattr("pipemagic.session.parameters.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"requires the package jinja2\nHint: %pip install jinja2"):
        raise shell.fails("%sql --jinja SELECT 1").error
