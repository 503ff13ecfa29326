"""A connection with the functions of the service."""

from __future__ import annotations

from contextlib import closing

import apsw
import pytest

from pipemagic.service.sqlite import functions


@pytest.fixture(scope="module")
def sql():
    """Return the first value of a statement, which runs on a connection with these functions."""
    with closing(apsw.Connection(":memory:")) as connection:
        functions.install(connection)
        yield lambda text, *arguments: connection.execute(text, arguments).get
