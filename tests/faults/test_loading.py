"""sqld is killed while a frame is loaded: the table is unchanged, and no staging table is left."""

from __future__ import annotations

import pandas as pd
import pytest
from promises import Promise
from sqld_server import Sqld

from pipemagic import errors
from pipemagic.client.bulk import batches
from pipemagic.client.database import Database

pytestmark = pytest.mark.promise(Promise.DURABILITY)

FRAME = pd.DataFrame({"a": range(3000), "b": "x"})


@pytest.mark.parametrize("if_exists", ["append", "replace"])
def test_killing_the_server_during_a_load_changes_nothing(sqld_binary, tmp_path, monkeypatch, if_exists):
    monkeypatch.setattr(batches, "FIRST", 500)
    monkeypatch.setattr(batches, "AIM", 5000)
    first = Sqld(sqld_binary, tmp_path / "sqld")
    made = first.database()
    with Database(made.url, made.token) as database:
        database.batch(["CREATE TABLE t(a, b)", "INSERT INTO t VALUES (-1, 'old')", "CREATE INDEX i ON t(a)"])

        def kill(done: int, total: int) -> None:
            first.process.kill()
            first.process.wait()

        with pytest.raises(errors.PipemagicError) as caught:
            database.load(FRAME, "t", if_exists=if_exists, progress=kill)
    assert "may be left over until the next load, which removes it" in caught.value.message
    second = Sqld(sqld_binary, tmp_path / "sqld", key=first.key)
    try:
        with Database(f"http://{made.name}.localhost:{second.port}", made.token) as database:
            assert database.execute("SELECT * FROM t").rows == [(-1, "old")]
            database.load(FRAME, "t", if_exists=if_exists)
            listed = database.execute("SELECT name FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").rows
            assert [name for (name,) in listed] == ["i", "t"]
            assert database.execute("SELECT count(*), max(a) FROM t").rows == [(3000 + (if_exists == "append"), 2999)]
    finally:
        second.close()
