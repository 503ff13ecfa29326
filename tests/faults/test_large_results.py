"""The service is killed while a cursor sends a large result: no partial result is returned, and the next cell works."""

from __future__ import annotations

import pytest
from promises import Promise
from served import serve

from pipemagic import errors
from pipemagic.service.sqld.local_nodes import free_port
from pipemagic.session import Session
from pipemagic.session.cell import RunOptions

pytestmark = pytest.mark.promise(Promise.DURABILITY)

LARGE = """WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 150)
    SELECT n, hex(zeroblob(500000)) AS t FROM c"""  # 150 MB, more than the 128 MB of a response


def test_killing_the_service_during_a_large_result_is_an_error(tmp_path) -> None:
    port = str(free_port())
    with Session() as session:
        with serve(tmp_path / "data", "--port", port) as service:
            service.create("flights")
            host = service.url.replace("127.0.0.1", "flights-local.localhost")
            session.connect(host, name="db", token=service.token("flights"))
            session.run("CREATE TABLE t(a)")

            def kill(_: int) -> None:
                service.process.kill()
                service.process.wait()

            with pytest.raises(errors.UnknownOutcome) as caught:
                session.run_cell(LARGE, options=RunOptions(progress=kill))
            assert (
                "ended in the middle of a response\nThe cell only reads: nothing was changed." in caught.value.message
            )
            assert caught.value.hint == "run it again"
        with serve(tmp_path / "data", "--port", port):
            assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]
