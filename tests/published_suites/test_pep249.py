"""The two suites for PEP 249 that are in use: `dbapi-compliance`, and the newer copy that psycopg2 carries."""

from __future__ import annotations

import unittest

import pytest
from published_suites import FIGURES, module_in, run

from pipemagic import dbapi

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


@pytest.mark.parametrize("suite", SUITES)
def test_compliance(suite, server, archives, record_property):
    archive, count, reasons = SUITES[suite]
    base = module_in(archives / archive, "dbapi20").DatabaseAPI20Test
    url, token = server.create()

    class Compliance(base):
        driver = dbapi
        connect_args = (url,)
        connect_kw_args = {"token": token}  # noqa: RUF012
        failUnless = unittest.TestCase.assertTrue  # noqa: N815 - no longer in unittest since Python 3.12

        def _connect(self):
            connection = super()._connect()
            self.addCleanup(connection.close)  # some tests do not
            return connection

        def test_nextset(self):
            """Both suites require each driver to write this test."""
            connection = self._connect()
            # "This method is optional since not all databases support multiple result sets."
            assert not hasattr(connection.cursor(), "nextset")
            connection.close()

        def test_setoutputsize(self):
            """Both suites require each driver to write this test."""
            connection = self._connect()
            cursor = connection.cursor()
            cursor.setoutputsize(1)  # "Implementations are free to have this method do nothing"
            cursor.execute("SELECT hex(zeroblob(1000000))")
            assert cursor.fetchone() == ("0" * 2_000_000,)
            connection.close()

    outcomes = run(unittest.defaultTestLoader.loadTestsFromTestCase(Compliance))
    record_property(FIGURES, f"{suite} on {server.name}: {outcomes.figure}")
    outcomes.check(reasons)
    assert outcomes.unknown(reasons) == []
    assert outcomes.count == count
