"""The states of a stream, and how one leads to another."""

import itertools

import pytest

from pipemagic.errors import StreamError
from pipemagic.hrana.stream import (
    IDLE_LIMIT,
    MOVES,
    TRANSACTION_LIMIT,
    Phase,
    Stream,
)

EVENTS = sorted({event for _, event in MOVES})


def test_the_limits_are_those_of_the_requirement():
    assert (IDLE_LIMIT, TRANSACTION_LIMIT) == (10.0, 5.0)


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(Phase, EVENTS)))
def test_a_stream_makes_the_moves_of_the_table_and_no_other(phase, event):
    stream = Stream("b", phase)
    if (phase, event) in MOVES:
        stream.move(event)
        assert stream.phase is MOVES[phase, event]
    else:
        with pytest.raises(StreamError, match=f"cannot {event} a stream that is {phase.value}"):
            stream.move(event)
        assert stream.phase is phase


@pytest.mark.parametrize("phase", [Phase.CLOSED, Phase.EXPIRED, Phase.LOST])
def test_an_ended_stream_stays_ended(phase):
    assert not [event for start, event in MOVES if start is phase]


# The two views joined: a whole exchange as plain dicts. Each side keeps its own Stream; what travels between
# them is a dict, or None where the network ate it.


class Server:
    """The server's view of one stream: hands out batons "1", "2", ..."""

    def __init__(self):
        self.stream, self.count = None, 0

    def answer(self, request):
        if request["baton"] is None:
            self.stream = Stream("0")
        elif self.stream is None or self.stream.phase in (Phase.CLOSED, Phase.LOST):
            return {"status": 400, "error": "invalid"}
        elif self.stream.phase is Phase.EXPIRED:
            return {"status": 400, "error": "expired"}
        elif request["baton"] != self.stream.baton:
            return {"status": 400, "error": "used"}
        self.stream.move("begin")
        if request["close"]:
            self.stream.move("close")
            return {"status": 200, "baton": None}
        self.count += 1
        self.stream.baton = str(self.count)
        self.stream.move("finish")
        return {"status": 200, "baton": self.stream.baton}


class Client:
    """The client's view of the same stream."""

    def __init__(self, server):
        self.server, self.stream = server, Stream()

    def send(self, *, close=False, lost=False):
        self.stream.move("begin")
        answer = self.server.answer({"baton": self.stream.baton, "close": close})
        if lost:
            self.stream.move("lose")
        elif answer["status"] == 200:
            self.stream.baton = answer["baton"]
            self.stream.move("finish" if answer["baton"] else "close")
        else:
            self.stream.move("expire" if answer["error"] == "expired" else "lose")
        return answer


def views(client):
    return client.stream.phase, client.server.stream.phase


def test_both_sides_agree_through_a_life():
    client = Client(Server())
    batons = [client.send()["baton"] for _ in range(3)]
    assert batons == ["1", "2", "3"]
    assert views(client) == (Phase.IDLE, Phase.IDLE)
    client.send(close=True)
    assert views(client) == (Phase.CLOSED, Phase.CLOSED)
    with pytest.raises(StreamError, match="cannot begin a stream that is closed"):
        client.send()


def test_both_sides_agree_on_an_expired_stream():
    client = Client(Server())
    client.send()
    client.server.stream.move("expire")
    assert client.send() == {"status": 400, "error": "expired"}
    assert views(client) == (Phase.EXPIRED, Phase.EXPIRED)


def test_a_lost_answer_leaves_the_server_waiting_and_the_client_without_a_baton():
    client = Client(Server())
    client.send()
    client.send(lost=True)
    assert views(client) == (Phase.LOST, Phase.IDLE)
    with pytest.raises(StreamError, match="cannot begin a stream that is lost"):
        client.send()
    client.server.stream.move("expire")  # the only way out on the server's side


def test_an_old_baton_leaves_the_stream_alone():
    client = Client(Server())
    old = client.send()["baton"]
    client.send()
    assert client.server.answer({"baton": old, "close": False}) == {"status": 400, "error": "used"}
    assert client.send()["status"] == 200
    assert views(client) == (Phase.IDLE, Phase.IDLE)


def test_a_stream_takes_one_request_at_a_time():
    client = Client(Server())
    client.stream.move("begin")
    with pytest.raises(StreamError, match="cannot begin a stream that is in use"):
        client.send()
