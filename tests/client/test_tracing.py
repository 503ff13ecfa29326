"""The observer of a transport receives each request once, with sizes, times and errors, without tokens."""

import json
import tracemalloc

import httpx
import pytest
from by_columns import to_part

from pipemagic.client.address import parse_address
from pipemagic.client.database import Database
from pipemagic.client.trace_format import LENGTH, ROWS, outline, redact
from pipemagic.client.tracing import BODY_LIMIT, Tally, TracedRequest
from pipemagic.errors import PipemagicError
from pipemagic.service.database_api.results import encode

TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJpZCI6ImRiIn0.c2lnbmF0dXJl"


class Recorded:
    """An observer, with what is known of each request when it receives it."""

    def __init__(self):
        self.requests, self.tallies, self.transactions = [], [], []

    def exchanged(self, request):
        self.requests.append(request)
        self.tallies.append(request.tally)
        self.transactions.append(request.transaction_open)


def answered(*results, baton=None):
    return {"baton": baton, "base_url": None, "results": list(results)}


def rows_of(count):
    rows = [[{"type": "integer", "value": str(number)}] for number in range(count)]
    counters = {"rows_read": count, "rows_written": 2, "query_duration_ms": 1.5}
    result = {"cols": [{"name": "n", "decltype": None}], "rows": rows, "affected_row_count": 0, **counters}
    return {"type": "ok", "response": {"type": "execute", "result": {**result, "last_insert_rowid": None}}}


CLOSED = {"type": "ok", "response": {"type": "close"}}


def database(recorded, *answers):
    """A database whose server gives these answers in turn."""
    left = iter(answers)

    def answer(request):
        given = next(left)
        return given(request) if callable(given) else given

    http = httpx.Client(transport=httpx.MockTransport(answer))
    return Database("http://localhost:1", TOKEN, http=http, observer=recorded)


def reply(body, status=200, **headers):
    return httpx.Response(status, json=body, headers=headers)


def test_a_request_is_recorded_once_with_its_response():
    recorded = Recorded()
    database(recorded, reply(answered(rows_of(2), CLOSED))).execute("SELECT n FROM t")
    [request] = recorded.requests
    assert recorded.tallies == [request.tally]
    assert (request.method, request.path, request.status) == ("POST", "/v2/pipeline", 200)
    assert json.loads(request.sent)["requests"][0]["stmt"] == {"sql": "SELECT n FROM t"}
    assert request.sent_size == len(request.sent)
    assert json.loads(request.received)["results"][1] == CLOSED
    assert request.ended >= request.started
    assert request.encoding > 0
    assert request.decoding > 0
    tally = request.tally
    assert (tally.statements, tally.rows, tally.rows_read, tally.rows_written, tally.errors) == (1, 2, 2, 2, 0)


def test_no_token_is_in_a_request():
    recorded = Recorded()
    http = database(recorded, reply(answered(rows_of(1), CLOSED)))
    http.execute(f"ATTACH 'http://h?authToken={TOKEN}' AS other")
    assert TOKEN not in repr(recorded.requests)
    assert TOKEN not in str(outline(json.loads(recorded.requests[0].sent)))


def test_bytes_received_are_those_on_the_wire():
    import gzip

    recorded, whole = Recorded(), json.dumps(answered(rows_of(500), CLOSED)).encode()
    packed = gzip.compress(whole)
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    database(recorded, lambda _: httpx.Response(200, headers=headers, stream=Pieces(packed))).execute("SELECT 1")
    assert recorded.requests[0].received_size == len(packed) < len(whole)


class Pieces(httpx.SyncByteStream):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        yield self.data


def test_of_large_bodies_an_outline_is_kept():
    recorded, text = Recorded(), "x" * (2 * BODY_LIMIT)
    many = rows_of(5000)
    with database(recorded, reply({}), reply(answered(many, CLOSED))) as db:
        tracemalloc.start()
        db.execute("SELECT :v", {"v": text})
        tracemalloc.stop()
    request = recorded.requests[-1]
    [value] = request.sent["requests"][0]["stmt"]["named_args"]
    assert value["value"]["value"] == f"{'x' * LENGTH}… {len(text) - LENGTH:,} more characters"
    rows = request.received["results"][0]["response"]["result"]["rows"]
    assert rows[ROWS:] == [f"… {5000 - ROWS:,} more"]
    assert len(json.dumps(request.received)) < 2000
    assert request.tally.rows == 5000


@pytest.mark.parametrize(
    ("given", "status", "error"),
    [
        (reply({"error": "no"}, 401), 401, ""),
        (lambda _: (_ for _ in ()).throw(httpx.ReadTimeout("late")), None, "AnswerTimeout: "),
        (lambda _: (_ for _ in ()).throw(httpx.ConnectError("nobody")), None, "ConnectError: "),
        (lambda _: httpx.Response(302, headers={"location": "http://x/"}), 302, "AddressError: "),
    ],
)
def test_a_failed_request_is_recorded(given, status, error):
    recorded = Recorded()
    with pytest.raises(PipemagicError):
        database(recorded, given).execute("SELECT 1")
    [request] = recorded.requests
    assert request.status == status
    assert request.error.startswith(error)
    assert bool(request.error) == bool(error)
    assert recorded.tallies == [None]


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
def test_the_server_reports_the_duration(timing, seconds):
    request = TracedRequest("POST", "/", parse_address("http://h"), 0.0, 10.0, server_timing=timing, encoding=0.5)
    request.tally = Tally(server_ms=2.0)
    assert request.timing.client == 0.5
    assert request.timing.server == pytest.approx(seconds)
    assert request.timing.network == pytest.approx(10 - seconds)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"ATTACH '{TOKEN}'", "ATTACH '***'"),
        ("https://h/?authToken=abc123&x=1", "https://h/?authToken=***&x=1"),
        ("libsql://me:secret@host/", "libsql://***@host/"),
        ("http://me:p@s/s@host/", "http://***@host/"),
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer ***"),
        ("pmp_abcdefgh12345678", "***"),
        ("pml_abcdefgh12345678", "***"),
        ("SELECT token FROM t WHERE a = 'x@y'", "SELECT token FROM t WHERE a = 'x@y'"),
    ],
)
def test_secrets_are_removed(text, shown):
    assert redact(text) == shown


@pytest.mark.parametrize("count", [256, 300])
def test_rows_that_came_by_columns_are_shown_as_rows(count):
    part = to_part([(number, TOKEN if number == 0 else None) for number in range(count)])
    rows = [[{"type": "integer", "value": "0"}, {"type": "text", "value": "***"}]]
    rows += [[{"type": "integer", "value": str(number)}, {"type": "null"}] for number in (1, 2)]
    shown = [*rows, f"… {count - 3} more"]
    assert outline(json.loads(encode({"rows": {"parts": [part]}}))) == {"rows": shown}
    assert outline(json.loads(encode({"type": "rows", "part": part}))) == {"type": "rows", "part": shown}
