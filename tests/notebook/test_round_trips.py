"""How many requests each thing takes that people do in a notebook, whoever makes them: on a slow line these count."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from counting_relay import CountingRelay
from magic_shell import make_database

PIPELINE = "POST /v3/pipeline"


class Counted:
    """A shell, connected through a relay."""

    def __init__(self, shell, relay):
        self.shell, self.relay = shell, relay

    @property
    def schema(self):
        return self.shell.ip.magics_manager.registry["PipeMagics"].session.connection().schema

    def during(self, cell):
        """Run a cell, and what it began in the background; gives the requests that this took."""
        self.shell(cell)
        assert self.schema.ready.wait(30)
        return self.relay.taken()


@pytest.fixture
def connected(request, shell, service, monkeypatch):
    url, token = make_database(service, request.node.name)
    monkeypatch.setenv("DB_TOKEN", token)
    address = urlsplit(url)
    relay = CountingRelay(address.port)
    counted = Counted(shell, relay)
    connecting = counted.during(f"%pipedb connect http://{address.hostname}:{relay.port} --token-env DB_TOKEN")
    assert sorted(connecting) == [
        "GET /v3",  # which version it speaks
        PIPELINE,  # whether it takes the token
        PIPELINE,  # the schema, in the background
    ]
    yield counted
    shell("%unload_ext pipemagic")
    relay.close()


@pytest.mark.parametrize(
    "cell",
    [
        "%sql SELECT 1",
        "%%sql\n" + ";\n".join(f"SELECT {number}" for number in range(20)),
        "%%sql --atomic\nSELECT 1; SELECT 2",
        "%%sql --limit 1 --timeout 5\nSELECT 1 UNION SELECT 2",
        "n = 1\n%sql SELECT :n",
        "%sql --explain SELECT 1",
        "%sql --dry-run SELECT 1",
    ],
)
def test_a_cell_is_one_request_the_first_one_as_well(connected, cell):
    assert connected.during(cell) == [PIPELINE]
    assert connected.during(cell) == [PIPELINE]


def test_a_transaction_over_several_cells_is_one_request_for_each(connected):
    connected.during("%sql CREATE TABLE t (a)")
    for cell in ("BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "SELECT * FROM t", "COMMIT"):
        assert connected.during(f"%sql {cell}") == [PIPELINE]


def test_a_change_of_the_schema_has_it_read_again_in_the_background(connected):
    assert connected.during("%sql CREATE TABLE t (a)") == [PIPELINE, PIPELINE]


@pytest.mark.parametrize("command", ["tables", "columns t", "schema", "schema t", "profile t", "diagram"])
def test_looking_at_what_is_there_is_one_request(connected, command):
    connected.during("%sql CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    connected.during("%sql INSERT INTO t VALUES (1, 'x'), (2, NULL)")
    assert connected.during(f"%pipedb {command}") == [PIPELINE]


def test_what_is_known_here_asks_nobody(connected):
    for command in ("connections", "wire", "snippets"):
        assert connected.during(f"%pipedb {command}") == []


def test_status_asks_for_the_version_and_the_health_of_the_server(connected):
    assert connected.during("%pipedb status") == ["GET /version", "GET /health"]
