"""Explore functions with a read-only token, which shows that none of them writes."""

from __future__ import annotations

import pytest

from pipemagic.client.database import Database
from pipemagic.explore.diff import diff
from pipemagic.explore.listing import columns, ddl, tables
from pipemagic.explore.profile import profile
from pipemagic.explore.rule_checks import check_rules


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_a_read_only_token_is_sufficient(server, request):
    if server == "sqld":
        made = request.getfixturevalue("sqld_database")
        writer, reader = Database(made.url, made.token), Database(made.url, made.mint(a="ro"))
    else:
        writer, reader = request.getfixturevalue("embedded"), request.getfixturevalue("read_only")
    writer.batch([
        "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT)",
        "CREATE TABLE visit (city REFERENCES city (id), day DATE)",
        "INSERT INTO city VALUES (1, 'Oslo'), (2, 'Bonn')",
        "INSERT INTO visit VALUES (1, '2024-01-01')",
    ])  # fmt: skip
    reader.read_only = True  # the client classifies none of it as a write
    assert tables(reader, rows=True)["rows"].tolist() == [2, 1]
    assert columns(reader, "visit")["column"].tolist() == ["city", "day"]
    assert str(ddl(reader, "city")).startswith("CREATE TABLE city")
    assert profile(reader, "city")["name"].distinct == 2
    assert (
        check_rules(reader, "visit", foreign_keys=True, references={"city": ("city", "id")}, unique=["day"]).rows == 1
    )
    assert diff(reader, "city", "SELECT * FROM city WHERE id = 1", key=["id"]).only_a_count == 1
    assert diff(reader, "city", other=writer).same
    for database in (reader, writer):
        database.close()
