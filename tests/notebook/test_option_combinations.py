"""Options of %%sql without effect are refused before anything runs."""

from __future__ import annotations

from itertools import combinations

from argument_samples import with_sample
from magic_shell import make_database

from pipemagic.errors import UsageError
from pipemagic.notebook.sql_options import OPTIONS

OF_A_RUN = [
    "--confirm", "--atomic", "--timeout 5", "--close", "--limit 3", "--type polars", "--to-csv x.csv",
    "--to-parquet x.parquet", "--time",
]  # fmt: skip

REFUSED = [
    *[(f"{ask} {flag}", f"{ask} runs nothing") for ask in ("--explain", "--dry-run") for flag in (*OF_A_RUN, "-q")],
    ("--explain --save s", "--explain runs nothing; --save would"),
    ("--explain --dry-run", "--explain runs nothing; --dry-run would have no effect"),
    ("--excel", "--excel requires --to-csv FILE"),
    ("--to-parquet x --encoding utf-8-sig", "--encoding requires --to-csv FILE"),
    ("--to-csv x --excel --encoding latin-1", "--excel writes utf-8-sig; --encoding would have no effect"),
    ("--to-csv x --encoding utf-99", "--encoding: unknown encoding 'utf-99'\nHint: use utf-8-sig"),
    ("--to-csv x --encoding hex", "--encoding: unknown encoding 'hex'"),
    ("--explain --to-csv x --excel", "--explain runs nothing; --to-csv, --excel would have no effect"),
    ("--to-csv x --to-parquet ./x", "name the same file"),
    ("--limit 2 --limit 3", "--limit can be used only once"),
    ("-o a --out b", "--out can be used only once"),
    ("--with ''", "--with requires a value: --with NAME"),
    ("--with a,,b", "the list has an empty item\nHint: write --with a,b"),
]


def test_an_option_without_effect_is_refused(shell):
    for given, message in REFUSED:
        failed = shell.fails(f"%sql {given} SELECT 1")
        assert isinstance(failed.error, UsageError), given
        assert message in failed.out


def test_an_option_after_the_sql_is_refused(shell):
    for line in ("%sql SELECT 1 --limit 2", "%sql SELECT 1 --explain", "%%sql SELECT 1 --on=x\n+ 1"):
        failed = shell.fails(line)
        assert isinstance(failed.error, UsageError)
        assert "Hint: write options before the SQL" in failed.out


def test_comments_and_strings_are_not_options(db):
    assert db("%sql SELECT '--limit 1' AS a -- limit 2").value["a"].tolist() == ["--limit 1"]
    assert db("%%sql\nSELECT 1 AS a --limit 2").value["a"].tolist() == [1]
    assert db("%sql SELECT 1 AS a --limited").value["a"].tolist() == [1]


def test_out_wins_over_a_name_in_a_comment(db):
    cell = db("%%sql -o a\n-- name: a\nSELECT 1 AS x;\nSELECT 2 AS x")
    assert "`-- name: a` stores nothing, because --out a names the same variable; use another name." in cell.lines
    assert db.names["a"]["x"].tolist() == [2]
    assert db("%%sql -o a\n-- name: a\nSELECT 3 AS x").lines == []
    assert db.names["a"]["x"].tolist() == [3]


def test_every_other_pair_of_options_runs(shell, service, monkeypatch, tmp_path):
    url, token = make_database(service, "pairs")
    monkeypatch.setenv("DB_TOKEN", token)
    shell(f"%pipedb connect {url} --as db --token-env DB_TOKEN")
    shell("%%sql --save late\nSELECT 1 AS a")
    shell("row = {'n': 1}")
    (tmp_path / "q.sql").write_text("SELECT 1 AS a")
    values = {
        "--params": "row", "--with": "late", "--save": "other", "--file": f"{tmp_path}/q.sql", "--on": "db",
        "--out": "kept", "--to-csv": f"{tmp_path}/x.csv", "--to-parquet": f"{tmp_path}/x.parquet",
    }  # fmt: skip
    given = [
        f"{option.flag} {values[option.flag]}" if option.flag in values else with_sample(option) for option in OPTIONS
    ]
    for combination, other in combinations(given, 2):
        text = (
            ""
            if "--file" in combination + other
            else "SELECT a FROM late"
            if "--with" in combination + other
            else "SELECT 1 AS a"
        )
        done = shell.run(f"%sql {combination} {other} {text}")
        if isinstance(done.error, UsageError):
            assert "no effect" in done.out or "cannot be combined" in done.out or "requires" in done.out, done.out
        else:
            expected = (
                "--with" in combination + other and "--file" in combination + other
            )  # the file does not read from the snippet
            assert (done.error is None) is not expected, (combination, other, done.out)
