"""``{name}`` on the line of a magic is the value of a variable: one word of one argument."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from argument_samples import sample
from IPython.core.completer import provisionalcompleter

from pipemagic.errors import ParameterError, SessionError, UsageError
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option
from pipemagic.notebook.commands import COMMANDS, TOPIC
from pipemagic.notebook.completion.inspection import inspect_cell
from pipemagic.notebook.line_variables import LineVariables
from pipemagic.notebook.sql_options import OPTIONS, sql_usage
from pipemagic.teaching.magics import ARGUMENTS, ON
from pipemagic.text import word

MAGICS = {
    **{f"%pipedb {name}": (command.positionals, command.options) for name, command in COMMANDS.items()},
    **{marker: (positionals, (ON,)) for marker, positionals in ARGUMENTS.items()},
    "%pipedb help": ((TOPIC,), ()),
    "%sql": ((), OPTIONS),
}
"""The arguments of every magic and command."""

TOKEN = "eyJhbGciOiJIUzI1NiIs.eyJhIjoicncifQ"
DEFAULTS = {"given": "x"}


def taking_values(positionals, options):
    return [*positionals, *(option for option in options if option.value and option.flag != "--")]


ARGUMENTS_OF_ALL = [
    pytest.param(magic, argument, id=f"{magic} {argument.name}")
    for magic, accepted in MAGICS.items()
    for argument in taking_values(*accepted)
]


def parsed(magic, line, variables):
    positionals, options = MAGICS[magic]
    usage = sql_usage(False) if magic == "%sql" else arguments.usage_of(magic, positionals, options)
    value_of = LineVariables(line, usage, variables).value
    if magic == "%sql":
        args, rest = arguments.leading(line, options, usage, value_of)
        assert rest == ""
        return args
    return arguments.parse(line, positionals, options, usage, value_of)


def line_with(magic, argument, text, *, equals=False):
    """Return a line with a text for one argument, and samples for those before it and the required ones."""
    positionals, options = MAGICS[magic]
    required = [option for option in options if option.required and option is not argument]
    parts = [f"{option.flag} {word(sample(option))}" for option in required]
    last = positionals.index(argument) if argument in positionals else len(positionals) - 1
    parts += [text if place is argument else word(sample(place)) for place in positionals[: last + 1]]
    parts += [word(sample(place)) for place in positionals[last + 1 :] if place.required]
    if isinstance(argument, Option):
        parts.append(f"{argument.flag}{'=' if equals else ' '}{text}")
    return " ".join(parts)


@pytest.mark.parametrize(("magic", "argument"), ARGUMENTS_OF_ALL)
def test_the_value_of_a_variable_is_one_word_of_every_argument(magic, argument, monkeypatch):
    text = sample(argument)
    if argument.name in ("--token-env", "--encryption-key-env"):
        monkeypatch.setenv(text, "x")
    expected = parsed(magic, line_with(magic, argument, word(text)), {})
    for written in ("{given}", "'{given}'", '"{given}"'):
        for equals in (False, True) if isinstance(argument, Option) else (False,):
            line = line_with(magic, argument, written, equals=equals)
            assert parsed(magic, line, {"given": text}) == expected, line


@pytest.mark.parametrize(("magic", "argument"), ARGUMENTS_OF_ALL)
def test_a_value_that_no_argument_can_have(magic, argument):
    line = line_with(magic, argument, "{given}")
    for variables, message in [
        ({}, r"\{given\}: name 'given' is not defined"),
        ({"given": pd.DataFrame()}, r"\{given\} must be a str, an int or a path, not a DataFrame"),
        ({"given": None}, "a path, not None"),
        ({"given": 1.5}, "a path, not a float"),
        ({"given": True}, "a path, not a bool"),
        ({"given": np.bool_(True)}, "a path, not a bool"),
        ({"given": b"a"}, "a path, not a bytes"),
        ({"given": 10**9999}, "a path, not an int"),
        ({"given": ""}, r"\{given\} is empty: given is ''"),
        ({"given": " \n"}, r"\{given\} is empty"),
    ]:
        with pytest.raises(UsageError, match=message):
            parsed(magic, line, variables)


@pytest.mark.parametrize(("magic", "argument"), ARGUMENTS_OF_ALL)
@pytest.mark.parametrize("secret", [f"libsql://h.io?authToken={TOKEN}", TOKEN, f"Bearer {TOKEN}", f"'{TOKEN}'"])
def test_a_token_in_a_variable_is_refused_and_not_repeated(magic, argument, secret):
    with pytest.raises(UsageError, match=r"\{given\} contains a token or a password") as caught:
        parsed(magic, line_with(magic, argument, "{given}"), {"given": secret})
    assert TOKEN[:8] not in str(caught.value)


@pytest.mark.parametrize(("magic", "argument"), ARGUMENTS_OF_ALL)
def test_what_only_looks_like_a_value_is_no_name(magic, argument):
    for text in ("$given", ":given", "@given", "${given}", "'$given'", "$given/x.csv", "{folder}/x.csv", "x{given}",
                 "'a {given}'", "{given}{given}", "{given.name}", "{given[0]}", "{given!r}", "{given",
                 "'{ given }'"):  # fmt: skip
        line = line_with(magic, argument, text)
        if argument.own_braces:
            parsed(magic, line, DEFAULTS)  # its own syntax
        else:
            with pytest.raises(UsageError, match=r"in braces|a word of its own|unclosed|not expand|the name alone"):
                parsed(magic, line, DEFAULTS)


@pytest.mark.parametrize(
    ("value", "text"),
    [(Path("a b.csv"), "a b.csv"), (7, "7"), (np.int64(-7), "-7"), (np.str_("x"), "x"), ("{other}", "{other}"),
     ("$x", "$x"), ("'quoted'", "'quoted'"), ("a\tb", "a\tb")],
)  # fmt: skip
def test_the_text_of_a_variable_is_used_as_it_is(value, text):
    assert parsed("%pipedb use", "{given}", {"given": value})["NAME"] == text


@pytest.mark.parametrize("text", ["{{x}}", "{}", "{1}", "{a b}", "{,}", "a$b", "a:b", "$", ":", "@", "{'x'}", "5$"])
def test_other_braces_and_signs_stay(text):
    assert parsed("%pipedb use", word(text), DEFAULTS)["NAME"] == text
    if " " not in text and "'" not in text:
        assert parsed("%pipedb use", text, DEFAULTS)["NAME"] == text


@pytest.mark.parametrize(
    "name", ["{given}", "$given", ":given", "@given", "${given}", "a {given} 'b'", '"{given}"', "{given}{x", "$given/x"]
)
def test_a_name_that_looks_like_a_value_has_a_written_form(name):
    assert parsed("%pipedb use", word(name), DEFAULTS)["NAME"] == name


# -- in a notebook


FRAME = "import pandas as pd\nframe = pd.DataFrame({'id': [1, 2], 'a': [3, 4]})\n"


@pytest.fixture
def notebook(db, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    db(FRAME + "table, fn, folder, missing = 'my sales', 'a b.csv', 'data', None")
    return db


def tables(notebook):
    return notebook("%pipedb tables").value["table"].tolist()


def test_tables_and_files_have_the_names_in_variables(notebook, tmp_path):
    notebook("%pipedb load frame --table {table}")
    assert tables(notebook) == ["my sales"]
    assert notebook("%sql --to-csv {fn} SELECT a FROM {table}").out == "Wrote 2 rows to a b.csv.\n"
    notebook.names.update({"again": Path("a b.csv"), "mark": ","})
    notebook("%pipedb load {again} --table again -- sep={mark}")
    assert notebook("%sql SELECT * FROM again").value["a"].tolist() == [3, 4]
    assert [path.name for path in tmp_path.iterdir()] == ["a b.csv"]


@pytest.mark.parametrize(
    ("option", "message"),
    [("sep={marks}", "did you mean {mark}?"), ("sep={frame}", "{frame} must be a str, an int or a path"),
     ("names={listed}", "a path, not a list\n"), ("sep='{mark}'", "sep cannot be '{mark}'"),
     ("sep = {half}", "a path, not a float\n"), ("sep={empty}", "{empty} is empty"),
     ("names=[{mark}]", "the value of names must be a Python literal")],
)  # fmt: skip
def test_an_option_of_a_reader(notebook, tmp_path, option, message):
    (tmp_path / "a b.csv").write_text("skipped\nid\ta\n1\t2\n")
    notebook("mark, n, listed, half, empty = '\\t', 1, ['x'], 0.5, ''")
    assert message in notebook.fails(f"%pipedb load {{fn}} --table t -- {option}").out
    notebook("%pipedb load {fn} --table t -- skiprows={n}, sep = {mark}")
    assert notebook("%sql SELECT a FROM t").value["a"].tolist() == [2]


def test_a_value_that_begins_with_dashes_is_no_option(notebook):
    notebook("table = '--replace'")
    notebook("%pipedb load frame --table {table}")
    assert tables(notebook) == ["--replace"]
    assert notebook("%pipedb columns {table}").value["column"].tolist() == ["id", "a"]


def test_options_of_sql(notebook, tmp_path):
    notebook("n, out, connection, seconds, values = 1, 'found', 'db', 9, '{\"x\": 5}'")
    notebook("%%sql --limit {n} -o {out} --on={connection} --timeout {seconds} --params {values}\n"
             "SELECT :x AS x UNION ALL SELECT 2")  # fmt: skip
    assert notebook.names["found"]["x"].tolist() == [5]
    (tmp_path / "a b.sql").write_text("SELECT 8 AS eight")
    notebook("fn = 'a b.sql'")
    assert notebook("%sql --file {fn}").value["eight"].tolist() == [8]


def test_braces_in_sql_remain_names_and_json_remains_json(notebook):
    notebook("%pipedb load frame --table {table}")
    notebook("column, condition = 'a', 'a > 3'")
    assert notebook("%sql SELECT {column} FROM {table} WHERE {column} > 3").value["a"].tolist() == [4]
    assert notebook('%sql --params \'{"x": 4}\' SELECT a FROM "my sales" WHERE a = :x').value["a"].tolist() == [4]
    assert notebook('%pipedb profile {table} --where "{column} > 3"').value.rows == 1
    assert notebook("%pipedb profile {table} --where {condition}").value.rows == 1
    notebook("%pipedb rules {table} --rows '{column} > 2' --unique {column}")
    notebook("query = 'SELECT * FROM {table}'")
    assert "are equal" in str(notebook("%pipedb diff {table} {query} --key id").value)


def test_a_list_of_columns_is_one_word(notebook):
    notebook("keys, listed = 'id,a', ['id', 'a']\nframe.to_csv('x.csv')")
    notebook("%sql CREATE TABLE t (id, a, UNIQUE (id, a))")
    notebook("%pipedb load frame --table t --upsert {keys}")
    failed = notebook.fails("%pipedb load frame --table t --upsert {listed}")
    assert failed.out == (
        "USAGE: {listed} must be a str, an int or a path, not a list\n"
        "Hint: upsert = ','.join(listed)\n%pipedb load frame --table t --upsert {upsert}\n"
    )
    notebook(failed.error.hint)
    notebook("keys, a = 'id', 'a'")
    failed = notebook.fails("%pipedb load frame --table t --upsert {keys},{a}")
    notebook(failed.error.hint)
    assert notebook("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [2]


LINES = [
    ("%pipedb load frame --table $table", "%pipedb load frame --table {table}"),
    ("%pipedb load frame --table=:table", "%pipedb load frame --table={table}"),
    ("%pipedb load frame --table '{ table }'", "table1 = f'{ table }'\n%pipedb load frame --table {table1}"),
    ("%pipedb {url}", "address or database, write %pipedb connect {url}"),
    ("%pipedb load $frame --table x", "%pipedb load frame --table x"),
    ("%pipedb load {frame} --table x", "write the name without braces:\n%pipedb load frame --table x"),
    ("%sql --params {values} SELECT :x", "write the name without braces:\n%sql --params values SELECT :x"),
    ("%sql --to-csv $fn SELECT 1", "%sql --to-csv {fn} SELECT 1"),
    ("%sql --to-csv {folder}/x.csv SELECT 1", "path = f'{folder}/x.csv'\n%sql --to-csv {path} SELECT 1"),
    ("%sql --to-csv $folder/x.csv SELECT 1", "path = f'{folder}/x.csv'\n%sql --to-csv {path} SELECT 1"),
    (
        "%sql --to-csv $HOME/x.csv SELECT 1",
        "import os; path = os.path.expandvars('$HOME/x.csv')\n%sql --to-csv {path} SELECT 1",
    ),
    ("%sql --to-csv '{fn}.csv' SELECT 1", "path = f'{fn}.csv'\n%sql --to-csv {path} SELECT 1"),
    ("%sql --to-csv {values[0]} SELECT 1", "path = values[0]\n%sql --to-csv {path} SELECT 1"),
    ("%pipedb load {frame.head(1)} --table x", "frame1 = frame.head(1)\n%pipedb load frame1 --table x"),
    ("%pipedb load { fn } --table x", "%pipedb load {fn} --table x"),
    ("%pipedb load frame --table={ table }", "%pipedb load frame --table={table}"),
    ("%sql --to-csv {folder + '/x.csv'} SELECT 1", "path = folder + '/x.csv'\n%sql --to-csv {path} SELECT 1"),
    ("%pipedb load {frame[frame.a > 3]} --table x", "frame1 = frame[frame.a > 3]\n%pipedb load frame1 --table x"),
    (
        "%pipedb load frame --table {table + '2'} --replace",
        "table1 = table + '2'\n%pipedb load frame --table {table1} --replace",
    ),
    ('%pipedb load frame --table f"{table}"', 'table1 = f"{table}"\n%pipedb load frame --table {table1}'),
    ("%sql --timeout {half} SELECT 1", "seconds = str(half)\n%sql --timeout {seconds} SELECT 1"),
    ("%pipedb load frame --table {tabel}", "did you mean {table}?"),
    ("%pipedb load frame --table {zzz}", "assign it first: zzz = ..."),
    ("%sql --limit n SELECT 1", "n is a variable; to use its value, write\n%sql --limit {n} SELECT 1"),
    ("%%sql --on n\nSELECT 1", "n is a variable; to use its value, write\n%%sql --on {n}"),
    ("%sql --file fn", "fn is a variable; to use its value, write\n%sql --file {fn}"),
    ("%pipedb columns table", "table is a variable; to use its value, write\n%pipedb columns {table}"),
    ("%pipedb use fn", "fn is a variable; to use its value, write\n%pipedb use {fn}"),
    ("%pipedb connect --keep-alive fn", "fn is a variable; to use its value, write\n%pipedb connect --keep-alive {fn}"),
]


@pytest.mark.parametrize(("line", "hint"), LINES)
def test_the_line_that_works(notebook, line, hint):
    notebook("values, half, n = {'x': 1}, 0.5, 3")
    failed = notebook.fails(line)
    assert hint in failed.out
    assert tables(notebook) == []
    assert not list(Path().iterdir())


def test_the_line_that_works_is_not_suggested_for_an_error_about_something_else(notebook):
    notebook("%pipedb load frame --table t")
    notebook("t, id, db = 'a', 'b', 'c'")
    assert "is a variable" not in notebook.fails("%pipedb load frame --table t").out  # the table exists
    assert "is a variable" not in notebook.fails("%sql --on db SELECT nope FROM t").out
    notebook("half = 0.5")
    assert "is a variable" not in notebook.fails("%sql --limit half SELECT 1").out  # nor would {half} be taken


def test_a_variable_of_a_function_comes_first(notebook):
    notebook(
        "def load(table, source):\n"
        "    %pipedb load source --table {table}\n"
        "    condition = 'a > 3'\n"
        "    found = %pipedb profile {table} --where {condition}\n"
        "    return found\n"
        "rows = load('inner', frame).rows"
    )
    assert tables(notebook) == ["inner"]
    assert notebook.names["rows"] == 1
    notebook("def limited(n):\n    return get_ipython().run_line_magic('sql', '--limit {n} SELECT 1 UNION SELECT 2')\n")
    assert len(notebook("limited(1)").value) == 1


@pytest.mark.parametrize(
    ("line", "table"),
    [("--table main.sales", "sales"), ('--table "my sales"', "my sales"), ('--table "main"."sales"', "sales"),
     ("--table '\"a.b\"'", "a.b"), ("--table {qualified}", "sales")],
)  # fmt: skip
def test_a_table_with_a_schema(notebook, line, table):
    notebook("qualified = 'main.sales'")
    assert notebook(f"%pipedb load frame {line}").out == f"Loaded 2 rows and 2 columns into {table}.\n"
    assert tables(notebook) == [table]
    notebook(f"%pipedb load frame {line} --append")
    assert notebook(f'%sql SELECT count(*) AS n FROM main."{table}"').value["n"].tolist() == [4]


@pytest.mark.parametrize("name", ["temp.t", '"temp"."t"', "other.t", "{qualified}"])
def test_a_table_of_another_schema_is_refused(notebook, name):
    notebook("qualified = 'temp.t'")
    failed = notebook.fails(f"%pipedb load frame --table {name}")
    assert isinstance(failed.error, UsageError)
    assert "temporary table, which only cells can see" in failed.out or "schema other does not exist" in failed.out
    assert tables(notebook) == []


# -- connect


def test_an_address_in_a_variable(notebook, monkeypatch):
    session = notebook.ip.magics_manager.registry["PipeMagics"].session
    notebook.names["url"] = session.connection("db").database.url
    for line in ("%pipedb connect $url", "%pipedb connect :url", "%pipedb connect url", "%sql {url}", "%sql $url"):
        failed = notebook.fails(f"{line} --token-env DB_TOKEN" if "connect" in line else line)
        assert "%pipedb connect {url}" in failed.out, line
        assert isinstance(failed.error, UsageError | SessionError | ParameterError)
    notebook("%pipedb connect {url} --token-env DB_TOKEN --as again")
    assert notebook("%sql SELECT 1 AS a").value["a"].tolist() == [1]


def test_an_address_in_an_environment_variable(notebook, monkeypatch):
    session = notebook.ip.magics_manager.registry["PipeMagics"].session
    monkeypatch.setenv("TURSO_DATABASE_URL", session.connection("db").database.url)
    for written in ("$TURSO_DATABASE_URL", "${TURSO_DATABASE_URL}", "{TURSO_DATABASE_URL}"):
        failed = notebook.fails(f"%pipedb connect {written} --token-env DB_TOKEN --as again")
        lines = failed.error.hint.splitlines()[-2:]
        assert lines[0] == "import os; turso_database_url = os.environ['TURSO_DATABASE_URL']"
        notebook("\n".join(lines))
        notebook("del turso_database_url")
    monkeypatch.delenv("TURSO_DATABASE_URL")
    assert (
        "os.environ['TURSO_DATABASE_URL'] = 'libsql://...'" in notebook.fails("%pipedb connect $TURSO_DATABASE_URL").out
    )


@pytest.mark.parametrize("secret", [f"libsql://h.io?authToken={TOKEN}", "libsql://me:s3cret@h.io", "me:s3cret@h.io"])
def test_a_secret_in_a_variable_is_never_printed(notebook, secret):
    notebook.names["url"] = secret
    for line in ("connect {url}", "connect $url", "connect url", "connect :url", "load frame --table {url}",
                 "connect h --token-env {url}", "organization acme --at {url}", "columns {url}", "diff {url} {url}",
                 "help {url}", "connect {url}/x", "use {url}", "connect h --as {url}"):  # fmt: skip
        failed = notebook.fails(f"%pipedb {line}")
        assert "s3cret" not in failed.out + failed.err, line
        assert TOKEN[:8] not in failed.out + failed.err, line
    for line in ("%sql --on {url} SELECT 1", "%sql {url}", "%sqlcmd columns -t {url}", "%sqlcmd columns -t {{url}}"):
        failed = notebook.fails(line)
        assert "s3cret" not in failed.out + failed.err, line
        assert TOKEN[:8] not in failed.out + failed.err, line
    assert tables(notebook) == []
    assert "s3cret" not in notebook("%pipedb status").out


# -- lines of JupySQL, completion and help


def test_lines_of_jupysql(notebook):
    notebook("%pipedb load frame --table {table}")
    notebook("column, n = 'a', 1")
    for line, replacement in [
        ("%sqlcmd columns --table {table}", '%pipedb columns "my sales"'),
        ("%sqlcmd columns --table={{ table }}", '%pipedb columns "my sales"'),
        ("%sqlcmd test -t {table} -c {column} --greater {n}", '%pipedb rules "my sales" --rows "a > 1"'),
        ("%sqlplot histogram --table {table} --column {column}", '%pipedb plot histogram "my sales" --x a'),
    ]:
        assert notebook.fails(line).error.hint == replacement
        notebook(replacement)
    notebook.names["url"] = f"libsql://h.io?authToken={TOKEN}"
    for written in ("{url}", "{{url}}", "{{ url }}", "{nope}", "{{nope}}"):
        name = written.strip("{ }")
        assert notebook.fails(f"%sqlcmd columns -t {written}").error.hint == f"%pipedb columns {{{name}}}"
    assert notebook.fails("%sql --section {table}").error.hint == "%pipedb connect {table}"


def completions(shell, cell):
    at = cell.index("|")
    text = cell[:at] + cell[at + 1 :]
    with provisionalcompleter():
        found = shell.ip.Completer.completions(text, at)
        return [text[: item.start] + item.text + text[item.end :] for item in found]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%pipedb load frame --table {ta|", ["%pipedb load frame --table {table}"]),
        ("%pipedb load frame --table {ta|}", ["%pipedb load frame --table {table}"]),
        ("%pipedb load frame --table={ta|", ["%pipedb load frame --table={table}"]),
        ('%pipedb load frame --table "{ta|}"', ['%pipedb load frame --table "{table}"']),
        ("%pipedb load {f|", ["%pipedb load {fn}", "%pipedb load {folder}"]),
        ("%sql --to-csv {f| SELECT 1", ["%sql --to-csv {fn} SELECT 1", "%sql --to-csv {folder} SELECT 1"]),
        ("%%sql --limit {mis|", []),
        ("%pipedb columns {fr|", []),
        ("%check {fo|", ["%check {folder}"]),
        ("%pipedb plot histogram {table} --x i|", ["%pipedb plot histogram {table} --x id"]),
    ],
)
def test_variables_are_completed_in_braces(notebook, cell, expected):
    notebook("%pipedb load frame --table {table}")
    assert notebook.ip.magics_manager.registry["PipeMagics"].session.connection().schema.ready.wait(30)
    assert completions(notebook, cell) == expected


def test_help_on_a_variable_in_braces(notebook):
    notebook.names["url"] = f"libsql://h.io?authToken={TOKEN}"
    magics = notebook.ip.magics_manager.registry["PipeMagics"]

    def help_at(cell):
        at = cell.index("|")
        return inspect_cell(magics, cell.replace("|", ""), at)["text/plain"]

    for cell in ("%pipedb columns {tab|le}", "%pipedb load frame --table={table|}", "%sql --on {ta|ble} SELECT 1"):
        assert "my sales" in help_at(cell), cell
    for cell in ("%pipedb connect {u|rl}", "%sql SELECT :u|rl"):
        assert help_at(cell) == "url: an address with a token or a password", cell
