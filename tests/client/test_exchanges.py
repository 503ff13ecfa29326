"""What observers of a transport are told: every exchange, with sizes, times, errors; never a token."""

import json
import tracemalloc

import httpx
import pytest

from pipemagic.client import urls
from pipemagic.client.database import Database
from pipemagic.client.exchanges import WHOLE, Exchange
from pipemagic.client.outlines import ITEMS, LENGTH, ROWS, outline, redact
from pipemagic.client.secrets import Token
from pipemagic.errors import PipemagicError
from pipemagic.hrana.messages import Execute, PipelineRequest, Stmt
from pipemagic.hrana.values import Blob, Text
from pipemagic.service.database_api.results import encode, to_part

TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJpZCI6ImRiIn0.c2lnbmF0dXJl"


class Told:
    def __init__(self):
        self.exchanged_with, self.read = [], []

    def exchanged(self, exchange):
        self.exchanged_with.append(exchange)

    def understood(self, exchange):
        self.read.append(exchange)


def answered(*results, baton=None):
    return {"baton": baton, "base_url": None, "results": list(results)}


def rows_of(count):
    rows = [[{"type": "integer", "value": str(number)}] for number in range(count)]
    counters = {"rows_read": count, "rows_written": 2, "query_duration_ms": 1.5}
    result = {"cols": [{"name": "n", "decltype": None}], "rows": rows, "affected_row_count": 0, **counters}
    return {"type": "ok", "response": {"type": "execute", "result": {**result, "last_insert_rowid": None}}}


CLOSED = {"type": "ok", "response": {"type": "close"}}


def database(told, *answers):
    """A database whose server gives these answers in turn."""
    left = iter(answers)

    def answer(request):
        given = next(left)
        return given(request) if callable(given) else given

    http = httpx.Client(transport=httpx.MockTransport(answer))
    return Database("http://localhost:1", TOKEN, http=http, observer=told)


def reply(body, status=200, **headers):
    return httpx.Response(status, json=body, headers=headers)


def test_an_exchange_says_what_was_sent_and_what_came_back():
    told = Told()
    database(told, reply(answered(rows_of(2), CLOSED))).execute("SELECT n FROM t")
    [exchange] = told.exchanged_with
    assert told.read == [exchange]
    assert (exchange.method, exchange.path, exchange.status) == ("POST", "/v2/pipeline", 200)
    assert json.loads(exchange.sent)["requests"][0]["stmt"] == {"sql": "SELECT n FROM t"}
    assert exchange.sent_size == len(exchange.sent)
    assert json.loads(exchange.received)["results"][1] == CLOSED
    assert exchange.ended >= exchange.started
    assert exchange.encoding > 0
    assert exchange.decoding > 0
    tally = exchange.tally
    assert (tally.statements, tally.rows, tally.rows_read, tally.rows_written, tally.errors) == (1, 2, 2, 2, 0)


def test_no_token_is_in_an_exchange():
    told = Told()
    http = database(told, reply(answered(rows_of(1), CLOSED)))
    http.execute(f"ATTACH 'http://h?authToken={TOKEN}' AS other")
    assert TOKEN not in repr(told.exchanged_with)
    assert TOKEN not in str(outline(json.loads(told.exchanged_with[0].sent)))


def test_bytes_received_are_those_on_the_wire():
    import gzip

    told, whole = Told(), json.dumps(answered(rows_of(500), CLOSED)).encode()
    packed = gzip.compress(whole)
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    database(told, lambda _: httpx.Response(200, headers=headers, stream=Pieces(packed))).execute("SELECT 1")
    assert told.exchanged_with[0].received_size == len(packed) < len(whole)


class Pieces(httpx.SyncByteStream):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        yield self.data


def test_of_large_bodies_an_outline_is_kept():
    told, text = Told(), "x" * (2 * WHOLE)
    many = rows_of(5000)
    with database(told, reply({}), reply(answered(many, CLOSED))) as db:
        tracemalloc.start()
        db.execute("SELECT :v", {"v": text})
        tracemalloc.stop()
    exchange = told.exchanged_with[-1]
    [value] = exchange.sent["requests"][0]["stmt"]["named_args"]
    assert value["value"]["value"] == f"{'x' * LENGTH}… {len(text) - LENGTH:,} more characters"
    rows = exchange.received["results"][0]["response"]["result"]["rows"]
    assert rows[ROWS:] == [f"… {5000 - ROWS:,} more"]
    assert len(json.dumps(exchange.received)) < 2000
    assert exchange.tally.rows == 5000


@pytest.mark.parametrize(
    ("given", "status", "error"),
    [
        (reply({"error": "no"}, 401), 401, ""),
        (lambda _: (_ for _ in ()).throw(httpx.ReadTimeout("late")), None, "AnswerTimeout: "),
        (lambda _: (_ for _ in ()).throw(httpx.ConnectError("nobody")), None, "ConnectError: "),
        (lambda _: httpx.Response(302, headers={"location": "http://x/"}), 302, "AddressError: "),
    ],
)
def test_an_exchange_that_fails_is_told_too(given, status, error):
    told = Told()
    with pytest.raises(PipemagicError):
        database(told, given).execute("SELECT 1")
    [exchange] = told.exchanged_with
    assert exchange.status == status
    assert exchange.error.startswith(error)
    assert bool(exchange.error) == bool(error)
    assert told.read == []


def test_what_is_sent_again_counts():
    told = Told()
    db = database(told, reply({}, 429), reply({}, 429), reply(answered(rows_of(1), CLOSED)))
    db.transport._sleep = lambda _: None
    db.execute("SELECT 1")
    assert [one.attempts for one in told.exchanged_with] == [3]


def test_a_transaction_shows():
    told, autocommit = Told(), lambda yes: {"type": "get_autocommit", "is_autocommit": yes}

    def state(yes):
        return {"type": "ok", "response": autocommit(yes)}

    db = database(
        told, reply({}), reply(answered(rows_of(0), state(False), baton="1")), reply(answered(rows_of(0), state(True)))
    )
    stream = db.open_stream()
    for sql in ("BEGIN", "COMMIT"):
        stream.send([Execute(Stmt(sql))])
    assert [one.transaction_open for one in told.exchanged_with] == [None, True, False]


@pytest.mark.parametrize(
    ("timing", "seconds"),
    [
        ("total;dur=12.5", 0.0125),
        ("query_total;dur=4.557326ms,libsql_query_exec;dur=164.453µs", 0.004557326),
        ("query_total;dur=164.5Âµs,", 0.0001645),
        ("query_total;dur=1.5s", 1.5),
        ("cache;desc=x", 0.002),
        ("", 0.002),
    ],
)
def test_the_server_says_how_long_it_took(timing, seconds):
    exchange = Exchange("POST", "/", urls.parse("http://h"), 0.0, 10.0, server_timing=timing)
    from pipemagic.client.exchanges import Tally

    exchange.tally = Tally(server_ms=2.0)
    assert exchange.server_seconds == pytest.approx(seconds)
    assert exchange.network_seconds == pytest.approx(10 - seconds)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"ATTACH '{TOKEN}'", "ATTACH '***'"),
        ("https://h/?authToken=abc123&x=1", "https://h/?authToken=***&x=1"),
        ("libsql://me:secret@host/", "libsql://***@host/"),
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer ***"),
        ("pmp_abcdefgh12345678", "***"),
        ("pml_abcdefgh12345678", "***"),
        ("SELECT token FROM t WHERE a = 'x@y'", "SELECT token FROM t WHERE a = 'x@y'"),
    ],
)
def test_secrets_are_blotted_out(text, shown):
    assert redact(text) == shown


def test_an_outline_counts_what_it_leaves_out():
    stmt = Stmt("SELECT ?", args=[Blob("QUJD" * 100), *[Text("a")] * 30])
    short = outline(PipelineRequest([Execute(stmt)]))["requests"][0]
    assert short["type"] == "execute"
    args = short["stmt"]["args"]
    assert args[0] == {"type": "blob", "base64": f"{('QUJD' * 100)[:40]}… 300 bytes"}
    assert args[ITEMS] == "… 11 more"


@pytest.mark.parametrize("count", [256, 300])
def test_rows_that_came_by_columns_are_shown_as_rows(count):
    part = to_part([(number, TOKEN if number == 0 else None) for number in range(count)])
    rows = [[{"type": "integer", "value": "0"}, {"type": "text", "value": "***"}]]
    rows += [[{"type": "integer", "value": str(number)}, {"type": "null"}] for number in (1, 2)]
    shown = [*rows, f"… {count - 3} more"]
    assert outline(json.loads(encode({"rows": {"parts": [part]}}))) == {"rows": shown}
    assert outline(json.loads(encode({"type": "rows", "part": part}))) == {"type": "rows", "part": shown}


def test_what_only_looks_like_rows_by_columns_is_shown_as_it_is():
    for odd in ({"parts": 1}, {"parts": [{"size": 2, "columns": [{"type": "integer", "values": "AAAA"}]}]}, {}):
        assert outline({"rows": odd}) == {"rows": odd}


def test_an_observer_sees_no_token_object():
    assert "Token" not in repr(Exchange.__slots__)
    assert repr(Token(TOKEN)) == "Token(***)"
