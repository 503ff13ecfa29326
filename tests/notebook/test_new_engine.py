"""A notebook on a database of the new engine of the hosted service, which the package pyturso has."""

from __future__ import annotations

import sys

import pytest

if sys.platform == "win32":
    pytest.skip("pyturso has no wheel for Windows", allow_module_level=True)

from turso_server import TursoServer


@pytest.fixture
def engine(tmp_path):
    server = TursoServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def cells(engine, plain_shell, monkeypatch):
    monkeypatch.setenv("ENGINE_TOKEN", "a-token")
    plain_shell("%load_ext pipemagic")
    plain_shell(f"%pipedb connect {engine.url} --token-env ENGINE_TOKEN --as engine")
    plain_shell(
        "%%sql\n"
        "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL, size REAL, founded DATE, seen DATETIME);\n"
        "CREATE TABLE trip (id INTEGER PRIMARY KEY, city INTEGER REFERENCES city (id), day DATE);\n"
        "INSERT INTO city VALUES (1, 'Rome', 2.8, NULL, '2024-01-01 00:00:00'), (2, 'Oslo', 0.7, '1048-05-05', NULL);\n"
        "INSERT INTO trip VALUES (1, 1, '2024-01-01'), (2, 2, '2024-01-02')"
    )
    return plain_shell


def test_dates_are_compared_by_the_declared_type(cells):
    cells("import pandas as pd\nday = pd.Timestamp('2024-01-01')")
    assert cells("%sql SELECT id FROM trip WHERE day = :day").value["id"].tolist() == [1]
    assert cells("%sql SELECT id FROM city WHERE seen = :day").value["id"].tolist() == [1]


def test_frames_are_tables_of_a_statement(cells):
    cells(
        "import pandas as pd\nnew = pd.DataFrame({'id': [1, 2], 'day': pd.to_datetime(['2024-01-01', '2024-05-05'])})"
    )
    joined = cells("%sql SELECT city.name, new.day FROM new JOIN city USING (id) ORDER BY id").value
    assert joined["name"].tolist() == ["Rome", "Oslo"]
    assert [str(day.date()) for day in joined["day"]] == ["2024-01-01", "2024-05-05"]


def test_commands_grids_panels_and_completion_send_nothing_that_fails(cells, engine):
    for cell in (
        "%pipedb tables", "%pipedb columns city", "%pipedb schema", "%pipedb diagram", "%pipedb panel explore",
        "%pipedb plot histogram city --x size", "%pipedb diff city trip --key id", "%%sql --grid\nSELECT * FROM city",
        "%%sql --explain\nSELECT * FROM city WHERE id = 1", "%%sql --dry-run\nSELECT * FROM city",
    ):  # fmt: skip
        cells(cell)
    assert "city  table  5" in cells("%pipedb panel explore").out
    assert {sql for sql, _ in engine.failures} <= {sql for sql, _ in engine.failures if "pragma_data_version" in sql}
    engine.failures.clear()
    assert "city: 2 rows" in cells("%pipedb profile city").out
    assert engine.failures == []  # the engine is known


def test_rules_check_declared_foreign_keys(cells):
    assert cells("%pipedb rules trip --foreign-keys").lines == ["trip: 1 rule passed, 2 rows."]
    cells("%sql INSERT INTO trip VALUES (3, 9, NULL)")
    assert "city is in city (id): 1 row fails" in str(cells.fails("%pipedb rules trip --foreign-keys").error)


def test_an_error_that_ends_the_transaction_stops_the_next_cells(cells):
    cells("%%sql\nBEGIN; INSERT INTO trip VALUES (3, 1, NULL)")
    cells.fails("%sql SELECT abs(-9223372036854775807 - 1)")  # rolls back there, not in SQLite
    assert "rolled back" in str(cells.fails("%sql INSERT INTO trip VALUES (4, 1, NULL)").error)
    cells("%sql ROLLBACK")
    assert cells("%sql SELECT count(*) AS n FROM trip").value["n"].tolist() == [2]


def test_a_frame_with_too_many_values_is_refused_with_the_line_that_loads_it(cells):
    cells("import pandas as pd\nlarge = pd.DataFrame({'i': range(20_000), 'j': range(20_000)})")
    error = str(cells.fails("%sql SELECT count(*) FROM large").error)
    assert error.startswith("large has 40,000 values, and this server takes 32,766 in a statement")
    assert "%pipedb load large --table large" in error
