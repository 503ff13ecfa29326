"""Answers in whatever parts they come: the same head and body, or an error, and always an end."""

import gzip
import zlib
from itertools import pairwise

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from raw_server import chunked, plain

from pipemagic.client.response_body import Unpacker
from pipemagic.http.transport import MAX_WITHOUT_BODY, ResponseParser

CUTS = st.lists(st.integers(0, 400), max_size=30)


def in_parts(data, cuts):
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return [data[start:end] for start, end in pairwise(places)]


def unpacked(unpacker, parts):
    return b"".join(chunk for part in parts for chunk in unpacker.feed(part))


def understood(parts, *, until_closed=False):
    """Feed parts; gives the answer and its body."""
    parser, body = ResponseParser(), b""
    for part in parts:
        parser.feed(memoryview(part))
        body += parser.take_body()
    if until_closed:
        parser.feed(b"")
    parser.release()
    return parser, body


@given(st.binary(max_size=300), CUTS)
def test_a_body_with_a_length(body, cuts):
    parser, got = understood(in_parts(plain(body, "200 OK", "Content-Type: a/b"), cuts))
    assert (parser.is_complete, parser.keeps_alive, parser.status, got) == (True, True, 200, body)
    assert parser.headers == [(b"Content-Type", b"a/b"), (b"Content-Length", str(len(body)).encode())]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=20), CUTS, st.sampled_from([b"", b"X: 1\r\nDate: 2\r\n"]))
def test_a_body_in_chunks(chunks, cuts, trailers):
    parser, got = understood(in_parts(chunked(*chunks, trailers=trailers), cuts))
    assert (parser.is_complete, parser.keeps_alive, got) == (True, True, b"".join(chunks))
    assert parser.headers == [(b"Transfer-Encoding", b"chunked")]


@given(st.binary(max_size=300), CUTS)
def test_a_body_without_a_length_goes_on_until_the_end(body, cuts):
    parser, got = understood(in_parts(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n" + body, cuts), until_closed=True)
    assert (parser.is_complete, parser.keeps_alive, got) == (True, False, body)


@pytest.mark.parametrize(
    ("header", "keeps"),
    [("Content-Length: 5", False), ("Transfer-Encoding: chunked", False), ("Content-Length: 0", True), ("A: b", True)],
)
def test_a_204_that_announces_a_body_is_the_last_of_its_connection(header, keeps):
    parser, got = understood([f"HTTP/1.1 204 No Content\r\n{header}\r\n\r\n".encode()])
    assert (parser.is_complete, parser.keeps_alive, got) == (True, keeps, b"")


@pytest.mark.parametrize("answer", [plain(b"hello"), chunked(b"he", b"llo"), chunked(b"x", trailers=b"A: b\r\n")])
def test_an_answer_that_is_cut_anywhere_is_broken(answer):
    for cut in range(len(answer)):
        parser = ResponseParser()
        if cut:
            parser.feed(answer[:cut])
        assert not parser.is_complete
        with pytest.raises(httpx.RemoteProtocolError, match="in the middle"):
            parser.feed(b"")
        parser.release()


@given(st.binary(min_size=1, max_size=200))
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
@example(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc")
@example(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n")
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n")
def test_a_malformed_response_is_an_error(garbage):
    with pytest.raises(httpx.RemoteProtocolError):
        understood([garbage], until_closed=True)


@given(st.binary(max_size=200), CUTS)
def test_garbage_behind_a_head_never_does_more_than_break(garbage, cuts):
    for head in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        try:
            understood(in_parts(head + garbage, cuts))
        except httpx.RemoteProtocolError as error:
            assert "illegal status line" not in str(error)  # noqa: PT017 - it need not break at all


@pytest.mark.parametrize("garbage", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x15\x03\x01\x00\x02\x02\x46", b"<html>", b"HTTP/x"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_response_that_is_not_http_is_detected(garbage, at_once):
    with pytest.raises(httpx.RemoteProtocolError) as caught:
        understood([garbage] if at_once else [bytes([byte]) for byte in garbage])
    assert "illegal status line" in str(caught.value)


def test_a_bad_chunk_is_not_another_protocol():
    with pytest.raises(httpx.RemoteProtocolError) as caught:
        understood([chunked(b"ok")[:-5], b"no chunk"])
    assert "illegal status line" not in str(caught.value)


@pytest.mark.parametrize("surplus", [plain(b"other"), b"HTTP/1.1 500 No\r\n", b"x", b"\0" * 200])
def test_data_after_a_response_are_not_part_of_it(surplus):
    parser, body = understood([plain(b"mine") + surplus])
    assert (body, parser.status, parser.is_complete, parser.keeps_alive) == (b"mine", 200, True, False)


@given(CUTS)
def test_answers_that_only_say_to_wait_are_passed_over(cuts):
    first = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\nServer: b\r\n\r\n"
    parser, body = understood(in_parts(first + plain(b"mine", "201 Made"), cuts))
    assert (parser.status, body, parser.keeps_alive) == (201, b"mine", True)
    assert parser.headers == [(b"Content-Length", b"4")]


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200 OK\r\n", True),
    ],
)
def test_connections_that_are_kept(head, keeps):
    assert understood([head + b"Content-Length: 2\r\n\r\nok"])[0].keeps_alive is keeps


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_answers_without_a_body(status):
    parser, body = understood([f"HTTP/1.1 {status}\r\n\r\n".encode()])
    assert (parser.is_complete, parser.keeps_alive, body) == (True, True, b"")


@pytest.mark.parametrize("where", ["on_message_begin", "on_header", "on_headers_complete"])
def test_an_interrupt_while_an_answer_is_understood_is_none_of_its_errors(where, monkeypatch):
    before = getattr(ResponseParser, where)

    def interrupted(self, *arguments):
        before(self, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(ResponseParser, where, interrupted)
    parser = ResponseParser()
    with pytest.raises(KeyboardInterrupt):
        parser.feed(plain(b"hello"))
    assert not parser.is_complete
    parser.release()


def test_an_interrupt_at_the_end_of_an_answer_is_not_lost(monkeypatch):
    def interrupted(self):
        self.is_complete = True
        raise KeyboardInterrupt

    monkeypatch.setattr(ResponseParser, "on_message_complete", interrupted)
    parser = ResponseParser()
    with pytest.raises(KeyboardInterrupt):
        parser.feed(plain(b"hello"))
    assert not parser.keeps_alive
    parser.release()


def test_headers_are_joined_and_may_be_empty():
    head = b"HTTP/1.1 200\r\nA: 1\r\na: 2\r\nEmpty:\r\nB:\xb5\r\nContent-Length: 0\r\n\r\n"
    parser, _ = understood([head])
    assert parser.headers == [(b"A", b"1"), (b"a", b"2"), (b"Empty", b""), (b"B", b"\xb5"), (b"Content-Length", b"0")]


@pytest.mark.parametrize(
    ("beginning", "again"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: ", b"b"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"\r\n"),
        (chunked(b"x")[:-2], b"A: b\r\n"),
    ],
)
def test_heads_and_trailers_have_an_end(beginning, again):
    with pytest.raises(httpx.RemoteProtocolError):
        understood([beginning, *[again] * (2 * MAX_WITHOUT_BODY // len(again))])


@given(st.lists(st.binary(max_size=300), min_size=2, max_size=5), CUTS)
def test_a_compressed_body_may_have_several_members(bodies, cuts):
    unpacker, packed = Unpacker(), b"".join(map(gzip.compress, bodies))
    assert unpacked(unpacker, in_parts(packed, cuts)) == b"".join(bodies)
    unpacker.end()
    cut = Unpacker()
    unpacked(cut, [packed[:-1]])
    with pytest.raises(httpx.DecodingError, match="incomplete"):
        cut.end()


def test_data_after_a_compressed_body():
    with pytest.raises(httpx.DecodingError, match="cannot read the compressed response"):
        unpacked(Unpacker(), [gzip.compress(b"hello") + b"other"])
    assert unpacked(Unpacker(), [gzip.compress(b"hello") + bytes(8)]) == b"hello"  # as gzip itself passes over it


@given(st.binary(max_size=2000), CUTS, st.sampled_from([gzip.compress, zlib.compress]))
def test_compressed_bodies(body, cuts, compress):
    unpacker, packed = Unpacker(), compress(body)
    assert unpacked(unpacker, in_parts(packed, cuts)) == body
    unpacker.end()
    cut = Unpacker()
    unpacked(cut, [packed[:-1]])
    with pytest.raises(httpx.DecodingError, match="incomplete"):
        cut.end()


def test_an_uncompressed_body_with_a_compression_header():
    with pytest.raises(httpx.DecodingError, match="cannot read the compressed response"):
        unpacked(Unpacker(), [b"hello"])


def test_an_empty_body_need_not_be_compressed():
    Unpacker().end()
