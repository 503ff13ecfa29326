"""Traces of cells: bounded, grouped by stream, as text and pictures."""

import threading
from itertools import pairwise
from xml.etree import ElementTree

import httpx
import pytest
from scripted_server import ScriptedServer, as_json, good
from service_calls import caller_of, new_service
from service_http import ServiceTransport

from pipemagic.client.address import parse_address
from pipemagic.client.database import Database
from pipemagic.client.secrets import BearerToken, EncryptionKey
from pipemagic.client.trace_format import idle_limit_of, outline
from pipemagic.client.tracing import RequestOrigin, Tally, TracedRequest
from pipemagic.service.limits import Limits
from pipemagic.session import Connection, Session, interrupts
from pipemagic.session.trace import CAPACITY, RequestRecorder, Trace, TraceEvent, timelines
from pipemagic.session.trace_html import StreamPicture


def request(
    start, seconds=0.01, sent="", received="", *, status=200, transaction=None, sql="SELECT 1", limit=10_000, **more
):
    import json

    asked = {"requests": [{"type": "execute", "stmt": {"sql": sql}}], **({"baton": sent} if sent else {})}
    answer = {"baton": received or None, "results": [], **({"stream_ttl_ms": limit} if limit and received else {})}
    found = TracedRequest("POST", "/v3/pipeline", parse_address("http://h"), start, start + seconds, status, **more)
    found.connection = "db"
    found.sent, found.received = json.dumps(asked).encode(), json.dumps(answer).encode()
    found.sent_size, found.received_size = len(found.sent), len(found.received)
    found.transaction_open = transaction
    return found


def events_of(*requests, number=1):
    return [
        TraceEvent(
            entry, _baton(entry.sent), _baton(entry.received), number if entry is requests[-1] else None,
            idle_limit_of(entry.received),
        )
        for entry in requests
    ]  # fmt: skip


def _baton(body):
    import json

    return json.loads(body).get("baton") or ""


def lines_of(*requests, now=None):
    last = requests[-1].ended
    [*_, stream] = timelines(events_of(*requests), last if now is None else now)
    return [line.strip() for line in stream.lines()]


def test_batons_lead_from_request_to_request():
    lines = lines_of(request(0.0, received="a"), request(2.0, sent="a", received="b"), request(2.5, sent="b"))
    assert lines == [
        "The stream of db:",
        "0.000 s  a request of an earlier cell opens the stream",
        "idle for 2.0 of 10 s",
        "2.000 s  a request of an earlier cell",
        "idle for 0.5 of 10 s",
        "2.500 s  request 1",
        "closed in the last request",
    ]


def test_a_transaction_and_its_window():
    lines = lines_of(
        request(0.0, received="a", transaction=True, limits="strict"),
        request(1.0, sent="a", received="b", transaction=True),
        request(1.05, sent="b", received="c", transaction=False),
    )
    assert lines[1] == "0.000 s  a request of an earlier cell opens the stream; a transaction is open, for at most 5 s"
    assert lines[-2] == "1.050 s  request 1; the transaction has ended"
    assert lines[-1] == "open; expires 10 s after the last response"


@pytest.mark.parametrize(("limits", "time", "sign"), [("", "about", "≈ "), ("relaxed", "at least", "≥ ")])
def test_the_time_of_a_transaction_is_an_estimate_unless_the_server_says_more(limits, time, sign):
    begin = request(0.0, received="a", transaction=True, limits=limits)
    assert lines_of(begin)[1] == f"0.000 s  request 1 opens the stream; a transaction is open, for {time} 5 s"
    (stream,) = timelines(events_of(begin), 0.1)
    assert f">{sign}5 s</text>" in StreamPicture(stream).svg()


@pytest.mark.parametrize(
    ("limit", "now", "line"),
    [
        (10_000, 9.5, "open; expires 10 s after the last response"),
        (10_000, 10.5, "probably expired: no request for 10 s"),
        (2_500, 2.0, "open; expires 2.5 s after the last response"),
        (60_000, 59.0, "open; expires 60 s after the last response"),
        (3_600_000, 59.0, "open; expires 1 h after the last response"),
        (None, 9.5, "open; expires about 10 s after the last response"),
        (None, 10.5, "probably expired: no request for about 10 s"),
    ],
)
def test_a_stream_expires_after_the_time_that_the_server_names_or_about_ten_seconds(limit, now, line):
    assert lines_of(request(0.0, received="a", limit=limit), now=now)[-1] == line


def test_idle_times_are_compared_with_an_estimate_until_the_server_names_its_limit():
    requests = request(0.0, received="a", limit=None), request(3.0, sent="a", received="b", limit=None)
    assert lines_of(*requests)[2] == "idle for 3.0 of about 10 s"
    assert lines_of(*requests, request(8.0, sent="b", received="c", limit=60_000))[4] == "idle for 5.0 of 60 s"


@pytest.mark.parametrize("status", [400, 404, 410])
@pytest.mark.parametrize("stable", [False, True])
def test_a_refused_baton_means_that_the_stream_has_expired(status, stable):
    first, refused, again = (
        request(0.0, received="a"),
        request(50.0, sent="a", status=status),
        request(50.1, received="x"),
    )
    ended, opened = timelines(events_of(first, refused, again), 50.2)
    assert [(stream.end, len(stream.events)) for stream in (ended, opened)] == [("expired", 2), ("open", 1)]
    assert ended.lines(stable=True) == [
        "The stream of db:",
        "  a request of an earlier cell opens the stream",
        "  a request of an earlier cell is refused, nothing of it ran",
        "  expired: the server no longer knows it",
    ]
    drawn = StreamPicture(ended, stable=stable).svg()
    assert ">expired</text>" in drawn
    assert ">expires</text>" in StreamPicture(opened, stable=stable).svg()
    ticks = [text.text for text in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert len(ticks) < 20


EXPIRED_AND_OPENED = [
    "The stream of main:",
    "  a request of an earlier cell opens the stream",
    "  request 1 is refused, nothing of it ran",
    "  expired: the server no longer knows it",
    "",
    "The stream of main:",
    "  request 2 opens the stream",
]


def recorded_session(database):
    session = Session(environ={})
    session.adopt(Connection("main", database, "a test"))
    session.wire.watch("main", database.transport)
    return session


def lines_of_last_cell(session):
    text = str(session.wire.trace(stable=True))
    return text[text.index("The stream of") :].split("\n")


def test_a_cell_whose_stream_had_expired_shows_both_streams(clock, tmp_path):
    with new_service(tmp_path, clock=clock, limits=Limits(idle=3.0)) as service:
        http = httpx.Client(transport=ServiceTransport(service))
        with Database("http://127.0.0.1:8080", caller_of(service, "flights").token, http=http, clock=clock) as database:
            session = recorded_session(database)
            session.run("CREATE TEMP TABLE kept(a)")
            clock.advance(4.0)
            with session.wire.cell():
                session.run("SELECT 1")
    assert lines_of_last_cell(session) == [*EXPIRED_AND_OPENED, "  open; expires 3 s after the last response"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error": "stream not found: b"}),
        (404, {"error": "stream not found: b", "code": "STREAM_NOT_FOUND"}),
        (410, {"error": "the stream was idle for too long", "code": "STREAM_EXPIRED"}),
        (410, {"error": "the server of the stream has ended", "code": "STREAM_LOST"}),
    ],
)
def test_a_stream_that_a_server_no_longer_has_had_expired(status, body):
    gone = as_json(body, status)
    server = ScriptedServer(good, gone, good)
    try:
        with Database(server.url, "a-secret-token") as database:
            session = recorded_session(database)
            session.run("SELECT 1")
            with session.wire.cell():
                session.run("SELECT 1")
    finally:
        server.close()
    assert lines_of_last_cell(session) == [*EXPIRED_AND_OPENED, "  open; expires about 10 s after the last response"]


def test_a_refusal_without_a_baton_is_no_expiry():
    assert lines_of(request(0.0, status=404))[-1].startswith("lost: ")


def test_a_stream_whose_beginning_is_forgotten_expires_too():
    assert lines_of(request(0.0, sent="a", status=404))[-1] == "expired: the server no longer knows it"


def test_without_an_answer_the_stream_is_lost():
    assert lines_of(request(0.0, received="a"), request(1.0, sent="a", status=None))[-1].startswith("lost: ")


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("count", [1, 5, 150])
def test_a_stream_is_drawn_without_overlaps(stable, count):
    requests = [request(n * 0.001, 0.0005, str(n) if n else "", str(n + 1), transaction=n > 0) for n in range(count)]
    [stream] = timelines(events_of(*requests), 1.0)
    root = ElementTree.fromstring(StreamPicture(stream, stable=stable).svg())
    bars = [rect for rect in root.iter("{http://www.w3.org/2000/svg}rect") if rect.get("y") == "32"]
    edges = [(float(bar.get("x")), float(bar.get("x")) + float(bar.get("width"))) for bar in bars]
    assert len(edges) == count
    assert all(left[1] <= right[0] for left, right in pairwise(edges))
    assert edges[-1][1] <= float(root.get("viewBox").split()[2])


def trace_of(*requests, **options):
    cell = RequestOrigin(seconds=0.5)
    for entry in requests:
        entry.origin = cell
    return Trace(requests, cell, BearerToken("abcdefgh12").redact, **options)


def test_a_trace_is_readable_json_with_named_batons():
    first, second = (
        request(0.0, received="aaaaaaaaaa", limit=None),
        request(1.0, sent="aaaaaaaaaa", received="bbbbbbbbbb", limit=None),
    )
    text = str(trace_of(first, second))
    assert '← {"baton": "B1 (…aaaaaa)", "results": []}' in text
    assert '→ {"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}], "baton": "B1 (…aaaaaa)"}' in text
    assert '← {"baton": "B2 (…bbbbbb)"' in text


def test_the_token_of_the_connection_is_removed_whatever_it_looks_like():
    assert "abcdefgh12" not in str(trace_of(request(0.0, sql="SELECT 'abcdefgh12'")))


def test_omitted_items_of_a_large_body_are_counted_once():
    large = request(0.0)
    large.received = outline({"rows": [["x" * 500]] * 20_000, "list": list(range(100))})
    text = str(trace_of(large))
    assert "… 19,997 more" in text
    assert "… 300 more characters" in text
    assert "… 80 more" in text
    assert "… 1 more" not in text


class Transport:
    token = BearerToken(None)
    key = EncryptionKey(None)
    observer = None
    limits = "strict"


def test_the_last_cell_is_the_last_that_made_requests():
    recorder, transport = RequestRecorder(), Transport()
    recorder.watch("db", transport)
    with recorder.cell():
        transport.observer.exchanged(request(0.0, received="1"))
        with recorder.cell():  # one inside belongs to it
            transport.observer.exchanged(request(0.1, sent="1", received="2"))
    with recorder.cell():
        pass
    transport.observer.exchanged(request(0.2, sent="2", received="3"))  # of a panel, between cells
    assert len(recorder.last) == 2
    assert len(recorder.trace(only="other")) == 0
    assert str(RequestRecorder().last) == "No cell has sent a request yet."


def test_a_background_thread_has_no_cell():
    recorder, transport = RequestRecorder(), Transport()
    recorder.watch("db", transport)
    recorder.begin()
    other = threading.Thread(target=lambda: transport.observer.exchanged(request(0.0)))
    other.start()
    other.join()
    transport.observer.exchanged(request(0.1))
    assert recorder.end()
    transport.observer.exchanged(request(0.2))  # in the same thread, after the cell
    assert [event.origin is not None for event in recorder.newest(3)] == [False, True, False]


def test_the_question_after_an_interrupt_belongs_to_its_cell(timed):
    database = timed.connection().database
    timed.wire.watch("main", database.transport)
    with timed.wire.cell():
        interrupts.query_outcome(database, 1)
    assert "BEGIN IMMEDIATE" in str(timed.wire.last)


def test_the_record_is_bounded():
    recorder, transport = RequestRecorder(), Transport()
    recorder.watch("db", transport)
    for number in range(3 * CAPACITY):
        with recorder.cell():
            transport.observer.exchanged(request(float(number)))
    assert len(recorder._requests) == len(recorder.newest(9 * CAPACITY)) == CAPACITY
    assert recorder.stats().loc["db", "round trips"] == 3 * CAPACITY


def test_stats_count_by_connection_and_in_total():
    recorder, transports = RequestRecorder(), {"b": Transport(), "a": Transport()}
    for name, transport in transports.items():
        recorder.watch(name, transport)
        one = request(0.0, 0.5, tally=Tally(2, 1, 5, 10, 3), attempts=2, reopened=True)
        transport.observer.exchanged(one)
    stats = recorder.stats()
    assert list(stats.index) == ["b", "a", "total"]
    row = stats.loc["total"].to_dict()
    sizes = {"bytes sent": row["bytes sent"], "bytes received": row["bytes received"]}
    assert row == {
        "round trips": 4, **sizes, "statements": 4, "errors": 2, "rows read": 20, "rows written": 6, "retries": 2,
        "streams reopened": 2, "seconds": 1.0,
    }  # fmt: skip
    assert sizes["bytes sent"] > 0
    assert set(stats) - set(recorder.stats(stable=True)) == {"bytes sent", "bytes received", "seconds"}
    assert recorder.stats(only="a").loc["a", "round trips"] == 2
    assert recorder.stats(only="c").loc["c"].sum() == 0
    recorder.reset()
    assert recorder.stats().loc["total", "round trips"] == 0
