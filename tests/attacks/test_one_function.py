"""A statement inside one function of SQLite ends for its client within 10 s of its limit.

The function takes minutes. It delays neither others nor the end of the service.
"""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from metrics_page import read_samples
from probes import connections, open_streams, post_sql
from promises import Promise
from served import PATIENCE, serve
from waiting import until

pytestmark = pytest.mark.promise(Promise.TIME)

MEMBERS = 60_000
"""Members of both arguments of `json_patch`, which compares all with all."""
PATCHES = [json.dumps({f"{name}{number}": 0 for number in range(MEMBERS)}) for name in "ab"]
PATCH = {"sql": "SELECT length(json_patch(?, ?))", "args": [{"type": "text", "value": text} for text in PATCHES]}
"""It takes some minutes."""


@pytest.fixture
def service(tmp_path):
    with serve(tmp_path / "data", "--port", "0", "--statement-timeout", "1") as service:
        yield service


def test_a_statement_inside_one_function_is_abandoned_and_the_service_ends(service):
    requests = [{"type": "execute", "stmt": PATCH}, {"type": "close"}]
    with service.database("work") as work, service.database("other") as other, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(work.http.post, "/v3/pipeline", json={"requests": requests})
        until(lambda: open_streams(service) == 1)
        while not answer.done():
            assert other.rows("SELECT 1") == [("1",)]
        error = answer.result().json()["results"][0]["error"]
        assert error["code"] == "STATEMENT_TIMEOUT"
        assert "in a SQLite function that cannot be interrupted" in error["message"]
        samples = read_samples(service.metrics())
        assert samples["pipemagic_statements_abandoned_total",] == 1
        assert samples["pipemagic_statements_abandoned_running",] == 1
        assert other.rows("SELECT 1") == [("1",)]
    assert "a statement on local/work was stopped: it is in a function that cannot be interrupted" in service.log()
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(PATIENCE) == 0
    assert service.log().endswith("stopped\n")


def test_the_service_ends_although_a_statement_that_was_not_abandoned_is_inside_one_function(service):
    service.create("work")
    with connections(service, 1) as [connection]:
        connection.sendall(post_sql(service.token("work"), PATCH))
        until(lambda: open_streams(service) == 1)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(PATIENCE) == 0
    assert "still busy after 1.8 s" in service.log()
