"""JupySQL beside pipemagic: its %sql runs on the notebook's connection, in the transaction of a cell."""

from __future__ import annotations

import pytest
from page_examples import normalize

START = [
    "%load_ext pipemagic",
    "%pipedb connect {url}",
    "%sql CREATE TABLE t (a BIGINT, d DATE)",
    "from sqlalchemy import create_engine\nimport pipemagic\nengine = create_engine('sqlite+pipemagic://')",
    "%load_ext sql",
    "%config SqlMagic.displaycon = False",
    "%config SqlMagic.feedback = 0",
]


@pytest.fixture
def run(libraries, target, tmp_path):
    """Run cells after those that load both extensions; return the outputs. Each must succeed."""

    def run(*cells):
        before = [cell.format(url=target.url) for cell in START]
        outputs = libraries.run_cells(tmp_path, *before, *cells)
        for cell, (success, output) in zip([*before, *cells], outputs, strict=True):
            assert success, f"{cell}\n{output}"
        return [normalize(output) for _, output in outputs[len(before) :]]

    return run


@pytest.mark.parametrize("con", ["engine", "pipemagic.current().dbapi()"], ids=["engine", "connection"])
def test_it_reads_and_writes_exact_values(run, target, con):
    *_, frame, columns = run(
        f"con = {con}\n%sql con",
        "%sql INSERT INTO t VALUES (9007199254740993, '2013-07-01'), (NULL, NULL)",
        "rows = %sql SELECT * FROM t\nprint(list(map(tuple, rows)))",
        "%sql SELECT count(*) AS n, max(a) AS a FROM t",
    )
    assert frame == "[(9007199254740993, '2013-07-01'), (None, None)]"
    assert "| 2 | 9007199254740993 |" in columns
    assert target.rows("SELECT * FROM t") == [(9007199254740993, "2013-07-01"), (None, None)]


def test_it_works_in_the_transaction_of_a_cell_and_does_not_end_it(run, target):
    outputs = run(
        "%sql engine",
        "%reload_ext pipemagic\n%sql BEGIN",
        "%sql INSERT INTO t VALUES (1, NULL)",
        "%reload_ext sql\n%sql engine",
        "%sql INSERT INTO t VALUES (2, NULL)",
        "%sql SELECT sum(a) AS total FROM t",
        "%sql --close sqlite+pipemagic://",
        "%reload_ext pipemagic\nprint(pipemagic.current().in_transaction)",
        "%sql ROLLBACK",
    )
    assert "|   3   |" in outputs[5]
    assert outputs[7].startswith("True")
    assert target.rows("SELECT * FROM t") == []


def test_its_commands_list_tables_and_columns_and_write_frames(run, target):
    outputs = run(
        "%sql engine",
        "%sqlcmd tables",
        "%sqlcmd columns --table t",
        "import pandas\nframe = pandas.DataFrame({'n': [1, 2]})",
        "%sql --persist frame --no-index",
        "%pipedb tables",
    )
    assert "|  t   |" in outputs[1]
    assert "BIGINT" in outputs[2]
    assert target.rows("SELECT n FROM frame") == [(1,), (2,)]
    assert "frame" in outputs[5]
