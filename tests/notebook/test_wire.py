"""%pipedb wire on each server."""

import json


def test_a_cell_shows_its_requests(db):
    db("%sql CREATE TABLE t (a, b)")
    db("%sql INSERT INTO t VALUES (1, x'0102'), (2, '<script>alert(1)</script>')")
    assert db("%pipedb wire on --on db").out == "Each cell now shows its requests and responses.\n"
    [shown] = db("%sql SELECT * FROM t").shown
    text, page = shown["text/plain"], shown["text/html"]
    assert text.startswith("1 request, ")
    assert '{"sql": "SELECT * FROM t"' in text
    assert "client " in text
    assert "network " in text
    assert "server 0.00 ms" not in text  # the server says how long it took
    assert '{"type": "text", "value": "<script>alert(1)</script>"}' in text
    assert "<script>" not in page
    assert "<svg" in page
    assert "expires 10 s after the last response" in text
    failed = db.fails("%sql SELECT nope FROM t")
    assert '"type": "error"' in failed.shown[0]["text/plain"]
    begun = db("%sql BEGIN").shown[0]["text/plain"]
    assert "a transaction is open, for at most 5 s" in begun
    assert "the transaction has ended" in db("%sql COMMIT").shown[0]["text/plain"]
    assert "closed" in db("%sql --close SELECT 1").shown[0]["text/plain"].splitlines()[-1]
    assert db("%pipedb wire off").out == "Cells no longer show requests.\n"
    assert db("%sql SELECT 1").shown == []


def test_wire_last(db):
    db("%sql SELECT 'authToken=verysecret'")
    db("%pipedb status")  # its requests are not those of a cell
    last = db("%pipedb wire last").value
    assert len(last) == 1
    assert "authToken=***" in str(last)
    assert "verysecret" not in str(last._repr_mimebundle_())
    stable = [str(db("%pipedb wire last --stable").value)]
    db("%sql SELECT 'authToken=verysecret'")
    stable.append(str(db("%pipedb wire last --stable").value))
    assert [text.splitlines()[2] for text in stable] == ["1. db: POST /v3/pipeline → HTTP 200"] * 2
    db.fails("%pipedb wire last --on nobody")
    assert "Usage" in type(db.fails("%pipedb wire sometimes").error).__name__


def test_totals(db):
    db("%sql CREATE TABLE t (a)")
    assert db("%pipedb wire reset").out == "The counts were reset.\n"
    db("%sql INSERT INTO t VALUES (1), (2)")
    db("%sql SELECT * FROM t")
    db.fails("%sql SELECT * FROM nope")
    stats = db("%pipedb wire").value
    assert list(stats.index) == ["db", "total"]
    row = json.loads(stats.loc["db"].to_json())
    assert (row["round trips"], row["statements"], row["errors"]) == (3, 3, 1)
    assert row["rows written"] == 2
    assert row["rows read"] >= 2
    assert row["bytes sent"] > 100
    assert stats.loc["total"].tolist() == stats.loc["db"].tolist()
    assert list(db("%pipedb wire --on db").value.index) == ["db"]
    assert not {"bytes sent", "bytes received", "seconds"} & set(db("%pipedb wire --stable").value)
    assert "--stable has no effect on wire reset" in db.fails("%pipedb wire reset --stable").out


def test_rows_of_a_cursor_are_counted_and_the_first_ones_shown(db):
    connection = db.names["get_ipython"]().find_line_magic("pipedb").__self__.session.connection("db")
    db("%pipedb wire reset")
    wire = connection.database.transport.observer._recorder
    with wire.cell(), connection.database.cursor("SELECT value FROM json_each('[1, 2, 3]')") as cursor:
        assert sum(map(len, cursor)) == 3
    text = str(wire.last)
    assert "POST /v3/cursor → HTTP 200" in text
    assert '{"type": "step_begin"' in text
    assert "The stream of db:" in text
    assert db("%pipedb wire").value.loc["db", "statements"] == 1
    assert db("%pipedb wire").value.loc["db", "bytes received"] > 200
