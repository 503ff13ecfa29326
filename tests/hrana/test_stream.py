"""The tables of a stream and of its transaction, and a client and a server that drive them with plain dicts."""

from __future__ import annotations

from collections import deque
from itertools import product

import pytest
import stream_pair
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from stream_pair import EventCall, Pair, Statements, Write

from pipemagic.errors import StreamError
from pipemagic.hrana.stream import ENDS, PHASES, TRANSACTIONS, Event, Phase, StreamState, Tx, TxEvent

Path = tuple[Event | TxEvent, ...]

# -- the tables


def follow(path: Path) -> StreamState:
    """Return a state after these events."""
    state = StreamState()
    for event in path:
        happen(state, event)
    return state


def happen(state: StreamState, event: Event | TxEvent) -> None:
    if isinstance(event, Event):
        state.move(event)
    else:
        state.change(event)


def find_states() -> dict[tuple[Phase, Tx], Path]:
    """Return all states that legal events lead to, with the shortest way to each."""
    ways: dict[tuple[Phase, Tx], Path] = {(Phase.IDLE, Tx.NONE): ()}
    waiting = deque(ways)
    while waiting:
        phase, transaction = known = waiting.popleft()
        legal = [event for table, now in ((PHASES, phase), (TRANSACTIONS, transaction)) for state, event in table
                 if state is now]  # fmt: skip
        for event in legal:
            reached = follow((*ways[known], event))
            found = reached.phase, reached.transaction
            if found not in ways:
                ways[found] = (*ways[known], event)
                waiting.append(found)
    return ways


STATES = find_states()


def names(state: tuple[Phase, Tx]) -> str:
    return f"{state[0].value}, {state[1].value}"


def test_every_state_can_be_reached():
    assert {phase for phase, _ in STATES} == set(Phase)
    assert {transaction for _, transaction in STATES} == set(Tx)


@pytest.mark.parametrize(("table", "states", "events"), [(PHASES, Phase, Event), (TRANSACTIONS, Tx, TxEvent)])
def test_every_state_and_event_is_in_its_table(table, states, events):
    assert {state for state, _ in table} | set(table.values()) == set(states)
    assert {state for state, _ in table} == set(states), "a state that nothing leads out of"
    assert {event for _, event in table} == set(events)


@pytest.mark.parametrize("state", STATES, ids=names)
def test_an_event_that_is_not_in_the_table_raises_and_changes_nothing(state):
    for event in (*Event, *TxEvent):
        table, now = (PHASES, state[0]) if isinstance(event, Event) else (TRANSACTIONS, state[1])
        tried = follow(STATES[state])
        if (now, event) in table:
            happen(tried, event)
            assert table[now, event] in (tried.phase, tried.transaction)
            continue
        with pytest.raises(StreamError, match=f"^cannot {event.value} a .* that is {now.value}$"):
            happen(tried, event)
        assert (tried.phase, tried.transaction) == state


@pytest.mark.parametrize(("phase", "event"), [move for move in PHASES if (move[0], Tx.OPEN) in STATES])
def test_the_end_of_a_stream_ends_its_transaction(phase, event):
    state = follow(STATES[phase, Tx.OPEN])
    state.move(event)
    ends = PHASES[phase, event] in (Phase.CLOSED, Phase.EXPIRED, Phase.LOST)
    assert ends is (event in ENDS)
    assert state.transaction is (TRANSACTIONS[Tx.OPEN, ENDS[event]] if ends else Tx.OPEN)


def test_each_end_leads_to_a_state_of_its_own():
    ends = {Event.CLOSE: {Phase.CLOSED}, Event.EXPIRE: {Phase.EXPIRED}, Event.LOSE: {Phase.LOST}}
    assert {end: {after for (_, event), after in PHASES.items() if event is end} for end in ENDS} == ends


# -- both sides

FEW: list[Statements] = [
    ("begin", "write"), ("write", "commit"), ("rollback",), ("begin", "write", "fail and roll back"),
]  # fmt: skip
REQUESTS, WRITES = 2, 2


def is_within(pair: Pair, event: EventCall, requests: list[Statements]) -> bool:
    """Return True if an event stays within REQUESTS and WRITES, with one message of an exchange under way."""
    match event:
        case ("send", statements) if statements not in requests:
            return False
        case ("send", statements) if "write" in statements and len(pair.client.writes) >= WRITES:
            return False
        case ("send" | "send_again" | "close", *_):
            return pair.client.exchange < REQUESTS and not pair.requests and not pair.responses
    return True


def explore(pair: Pair, *, requests: list[Statements], depth: float) -> list[Pair]:
    """Return every state that at most ``depth`` events lead to; each was checked."""
    known = {pair.key: pair}
    waiting = deque([(pair, 0)])
    while waiting:
        before, count = waiting.popleft()
        events = [] if count == depth else before.events()
        for event in events:
            if is_within(before, event, requests):
                after = before.copy()
                after.happen(event)
                if after.key not in known:
                    known[after.key] = after
                    waiting.append((after, count + 1))
    return list(known.values())


def test_both_sides_agree_whatever_is_lost_and_late(soak):
    pair = Pair()
    requests, depth = (stream_pair.REQUESTS, float("inf")) if soak else (FEW, 10)
    states = explore(pair, requests=requests, depth=depth)
    assert pair.moves_of_client | pair.moves_of_server == {*PHASES, *TRANSACTIONS}
    at_client = {(member.client.state.phase, member.client.state.transaction) for member in states}
    outlives = {(phase, Tx.OPEN) for phase in (Phase.CLOSED, Phase.EXPIRED, Phase.LOST)}
    assert at_client == {*product(Phase, Tx)} - outlives - {(Phase.IN_USE, Tx.LOST)}
    at_server = {
        (stream.state.phase, stream.state.transaction) for pair in states for stream in pair.server.streams.values()
    }
    assert at_server == {*product((Phase.IDLE, Phase.IN_USE), Tx)}
    outcomes = {outcome for member in states for outcome in member.client.writes.values()}
    assert outcomes == set(Write)


class PairMachine(RuleBasedStateMachine):
    """Random events of both sides and the network; at the end everything that was sent arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()

    @rule(data=st.data())
    def happen(self, data: st.DataObject) -> None:
        pair = self.pair
        sides = [*map(list, (pair.events_of_client(), pair.events_of_network(), pair.events_of_server()))]
        pair.happen(data.draw(st.sampled_from(sides).filter(bool).flatmap(st.sampled_from)))

    def teardown(self) -> None:
        self.pair.settle()
        assert Write.OPEN not in self.pair.client.writes.values()
        for write, outcome in self.pair.client.writes.items():
            if outcome is not Write.UNKNOWN:
                assert (write in self.pair.server.applied) is (outcome is Write.COMMITTED)


def test_both_sides_agree_in_long_stories(soak):
    run_state_machine_as_test(PairMachine, settings=settings(max_examples=500 if soak else 15, stateful_step_count=50))
