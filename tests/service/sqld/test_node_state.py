"""The state of a node, and the client of its admin API. No node runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipemagic.service.sqld.admin import NodeDown, NodeState
from pipemagic.service.sqld.nodes import Node


@pytest.fixture
def state() -> Iterator[NodeState]:
    state = NodeState(Node("ams", "http://127.0.0.1:9", "http://127.0.0.1:9"))
    yield state
    state.close()


def test_each_error_of_a_node_that_is_down_is_a_new_one(state: NodeState):
    """Each raise of one exception would extend its traceback, which keeps the frames and their objects."""
    state.set_down(NodeDown("the node ams is paused", refused=True))
    raised = []
    for _ in range(2):
        with pytest.raises(NodeDown, match="is paused") as caught:
            state.run(lambda _: None)
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert all(error.refused for error in raised)
    assert state.down.__traceback__ is None
