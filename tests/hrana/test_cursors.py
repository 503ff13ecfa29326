"""Cursor messages: entries of servers are decoded, unknown entries are skipped, garbage is a ProtocolError."""

import pytest

from pipemagic.errors import ProtocolError
from pipemagic.hrana import cursors as c
from pipemagic.hrana import messages as m
from pipemagic.hrana.values import Integer

ENTRIES = {
    b'{"type":"step_begin","step":0,"cols":[{"name":"n","decltype":null}]}': c.StepBegin(0, [m.Col("n")]),
    b'{"type":"row","row":[{"type":"integer","value":"1"}]}': c.RowEntry([Integer("1")]),
    b'{"type":"step_end","affected_row_count":0,"last_insert_rowid":"7"}': c.StepEnd(0, "7"),
    b'{"type":"step_error","step":1,"error":{"message":"no","code":"X"}}': c.StepError(1, m.Error("no", "X")),
    b'{"type":"step_error","step":2,"error":{"message":"no","code":"X","extended_code":"X_Y"}}': c.StepError(
        2, m.Error("no", "X", "X_Y")
    ),
    b'{"type":"error","error":{"message":"over"}}': c.CursorError(m.Error("over")),
}


@pytest.mark.parametrize(("line", "entry"), ENTRIES.items(), ids=[type(item).__name__ for item in ENTRIES.values()])
def test_entries_are_read_and_written(line, entry):
    assert list(c.decode_entries([line])) == [entry]
    assert m.encode(entry) == line


def test_the_other_server_s_numbers_and_entry_are_read():
    lines = [
        b'{"type":"step_end","affected_row_count":1,"last_insert_rowid":12}',
        b'{"type":"replication_index","replication_index":12}',
        b"",
    ]
    assert list(c.decode_entries(lines)) == [c.StepEnd(1, 12)]


def test_entries_come_as_the_lines_do():
    def lines():
        yield b'{"type":"row","row":[]}'
        raise AssertionError("read ahead")

    assert next(c.decode_entries(lines())) == c.RowEntry([])


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"type":"row"}', b'{"type":1}', b'{"step":0}', b'{"type":"row","row":[{}]}']
)
def test_garbage_is_an_error(line):
    with pytest.raises(ProtocolError, match="cannot read an entry of the cursor"):
        list(c.decode_entries([line]))


def test_the_request():
    batch = m.Batch([m.Step(m.Stmt("SELECT 1"))])
    body = m.encode(c.CursorRequest(batch, "b"))
    assert body == b'{"batch":{"steps":[{"stmt":{"sql":"SELECT 1"}}]},"baton":"b"}'
    assert c.decode_request(body) == c.CursorRequest(batch, "b")
    assert c.decode_request(b'{"baton":null,"batch":{"steps":[],"x":1}}') == c.CursorRequest(m.Batch([]))
    with pytest.raises(ProtocolError, match="cannot read the cursor request"):
        c.decode_request(b'{"batch":[]}')


def test_the_first_line():
    assert c.decode_head(b'{"baton":"b","base_url":null}\n') == c.Head("b")
    with pytest.raises(ProtocolError, match="cannot read the first line of the cursor"):
        c.decode_head(b"<html>")
