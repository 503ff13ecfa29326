"""Responses that are lost although the server ran the request."""

from __future__ import annotations

import pytest

from pipemagic.errors import InterruptedRequest


def lose_answer(session, transport, monkeypatch, cell, kind=InterruptedRequest):
    """Run a cell whose response is lost by an interrupt; return the error."""
    handle = transport.handle_request

    def interrupted(request):
        handle(request)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transport, "handle_request", interrupted)
        with pytest.raises(kind) as caught:
            session.run(cell)
    return caught.value
