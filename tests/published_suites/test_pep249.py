"""The two suites for PEP 249 that are in use: `dbapi-compliance`, and the newer copy that psycopg2 carries."""

from __future__ import annotations

import unittest

import pytest
from published_suites import FIGURES, module_in, run

from pipemagic import dbapi
from pipemagic.client.database import Database
from pipemagic.dbapi.links import NotebookLink
from pipemagic.session import Connection, Session

SUITES = {
    "dbapi-compliance": (
        "dbapi-compliance-1.15.0.zip",
        36,
        {
            "Compliance.test_non_idempotent_close": "PEP 249 does not say that a second close() fails, and `with "
            "closing(...)` needs one that does not; the suite itself calls the test controversial",
        },
    ),
    "psycopg2": ("psycopg2-2.9.13.tar.gz", 35, {}),
}
"""The archive of each suite, the number of its tests, and those that do not pass."""


@pytest.fixture(params=["own", "notebook"])
def connect(request, server):
    """Open connections, each of its own or all on that of a notebook, to a new database."""
    address = server.create()
    if request.param == "own":
        yield lambda: dbapi.connect(*address)
        return
    with Session(environ={}) as session:
        notebook = Connection("main", Database(*address), "a test")
        session.adopt(notebook)
        yield lambda: dbapi.Connection(NotebookLink(notebook), autocommit=True)


@pytest.mark.parametrize("suite", SUITES)
def test_compliance(suite, server, connect, archives, request, record_property):
    archive, count, reasons = SUITES[suite]

    class Compliance(module_in(archives / archive, "dbapi20").DatabaseAPI20Test):
        driver = dbapi
        failUnless = unittest.TestCase.assertTrue  # noqa: N815 - no longer in unittest since Python 3.12

        def _connect(self):
            connection = connect()
            self.addCleanup(connection.close)  # some tests do not
            return connection

        def test_nextset(self):
            """Both suites require each driver to write this test."""
            # "This method is optional since not all databases support multiple result sets."
            assert not hasattr(self._connect().cursor(), "nextset")

        def test_setoutputsize(self):
            """Both suites require each driver to write this test."""
            cursor = self._connect().cursor()
            cursor.setoutputsize(1)  # "Implementations are free to have this method do nothing"
            cursor.execute("SELECT hex(zeroblob(1000000))")
            assert cursor.fetchone() == ("0" * 2_000_000,)

    outcomes = run(unittest.defaultTestLoader.loadTestsFromTestCase(Compliance))
    record_property(FIGURES, f"PEP 249, {request.node.callspec.id}: {outcomes.figure}")
    outcomes.check(reasons)
    assert outcomes.unknown(reasons) == []
    assert outcomes.count == count
