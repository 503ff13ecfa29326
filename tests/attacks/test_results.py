"""A result of ten million cells: an error that says what to do, or rows over a cursor, with little memory."""

from __future__ import annotations

import json

import httpx
import pytest
from promises import Promise
from served import Database

pytestmark = pytest.mark.promise(Promise.MEMORY)

ROWS, COLUMNS = 1_000_000, 10
SQL = f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {ROWS})
    SELECT {", ".join(["i"] * COLUMNS)} FROM n"""


def test_ten_million_cells_in_one_response_are_an_error_that_says_what_to_do(scene):
    with Database(scene.service.url, scene.attacker) as db:
        error = db.error(SQL)
    assert error["code"] == "RESPONSE_TOO_LARGE"
    assert "request fewer rows (LIMIT) or columns" in error["message"]
    scene.others_work()


def test_a_cursor_sends_ten_million_cells(scene):
    rows, last = 0, b""
    body = {"batch": {"steps": [{"stmt": {"sql": SQL}}]}}
    headers = {"authorization": f"Bearer {scene.attacker}"}
    with httpx.stream("POST", f"{scene.service.url}/v3/cursor", json=body, headers=headers, timeout=60) as response:
        for number, data in enumerate(response.iter_bytes()):
            rows += data.count(b'{"type":"row"')
            last = data
            if number == 20:
                scene.others_work()
    assert rows == ROWS
    assert json.loads(last.splitlines()[-1])["type"] == "step_end"
