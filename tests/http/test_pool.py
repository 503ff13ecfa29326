"""Which connections are kept, for how long, and how many."""

import gc
import socket
import threading

import pytest
from waiting import PATIENCE

from pipemagic.http.transport import FIRST_RECEIVE_SIZE, IDLE_LIMIT, MAX_IDLE, ConnectionPool, HttpConnection, Origin

HERE, THERE = Origin("here", 1, None), Origin("there", 1, "there")


class Clock:
    time = 0.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pool(clock):
    pool = ConnectionPool(clock)
    yield pool
    pool.close()


@pytest.fixture
def connection():
    """Make a connection and give it with its other end."""
    sockets = []

    def make(origin=HERE):
        ours, theirs = socket.socketpair()
        sockets.extend([ours, theirs])
        return HttpConnection(ours, origin), theirs

    yield make
    for end in sockets:
        end.close()


def is_closed(other_end):
    other_end.setblocking(False)
    try:
        return other_end.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_the_one_that_was_used_last_comes_first(pool, connection):
    first, second = connection()[0], connection()[0]
    pool.put(first)
    pool.put(second)
    assert [pool.take(HERE), pool.take(HERE), pool.take(HERE)] == [second, first, None]


def test_a_connection_leads_where_it_leads(pool, connection):
    here, there = connection(HERE)[0], connection(THERE)[0]
    pool.put(here)
    pool.put(there)
    assert pool.take(HERE) is here
    assert pool.take(HERE) is None
    assert pool.take(THERE) is there


@pytest.mark.parametrize("said", [b"x", b""])
def test_an_idle_connection_with_unrequested_data_is_closed(pool, connection, said):
    ours, theirs = connection()
    pool.put(ours)
    if said:
        theirs.send(said)
    else:
        theirs.shutdown(socket.SHUT_WR)
    assert pool.take(HERE) is None
    assert len(pool) == 0
    assert is_closed(theirs)


def test_a_connection_takes_more_at_once_when_more_comes(connection):
    ours, theirs = connection()
    theirs.sendall(bytes(3 * FIRST_RECEIVE_SIZE))
    pieces = [bytes(ours.receive(None)), bytes(ours.receive(None))]
    assert [len(piece) for piece in pieces] == [FIRST_RECEIVE_SIZE, 2 * FIRST_RECEIVE_SIZE]
    assert b"".join(pieces) == bytes(3 * FIRST_RECEIVE_SIZE)


def test_old_ones_are_closed_wherever_they_lead(pool, connection, clock):
    old, new = connection(THERE), connection(THERE)
    pool.put(old[0])
    clock.time = IDLE_LIMIT / 2
    pool.put(new[0])
    clock.time = IDLE_LIMIT + 1
    assert pool.take(HERE) is None
    assert [is_closed(end) for _, end in (old, new)] == [True, False]
    assert pool.take(THERE) is new[0]


def test_no_more_are_kept_than_so_many(pool, connection):
    made = [connection() for _ in range(MAX_IDLE + 3)]
    for ours, _ in made:
        pool.put(ours)
    assert len(pool) == MAX_IDLE
    assert [is_closed(end) for _, end in made] == [True] * 3 + [False] * MAX_IDLE


def test_a_closed_pool_keeps_nothing(pool, connection):
    idle, used = connection(), connection()
    pool.put(idle[0])
    pool.close()
    assert is_closed(idle[1])
    pool.put(used[0])
    assert is_closed(used[1])
    assert len(pool) == 0


def test_unread_responses_may_be_garbage_collected_at_any_moment(connection):
    """Whatever makes an object may collect garbage, and with it an answer whose connection comes back to the pool."""

    class Collecting(Origin):
        __hash__ = Origin.__hash__

        def __eq__(self, other):
            gc.collect()
            return super().__eq__(other)

    class Abandoned:
        def __init__(self, connection):
            self.myself, self.connection = self, connection

        def __del__(self):
            pool.put(self.connection)

    pool = ConnectionPool()  # of which nobody else waits for the lock
    origin = Collecting("here", 1, None)
    idle, abandoned = connection(origin)[0], connection(THERE)[0]
    pool.put(idle)
    Abandoned(abandoned)
    taken = []
    thread = threading.Thread(target=lambda: taken.append(pool.take(origin)), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert taken == [idle]
    assert pool.take(THERE) is abandoned
