"""One request: what its endpoint knows about it, the bytes of its bodies, and its cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.executor import UNVERIFIED, Tenant

if TYPE_CHECKING:
    from pipemagic.service.auth.tokens import AccessGrant

CLIENT_CLOSED = 499
"""The status, in metrics and logs, of a request if its client disconnects before the response. nginx uses the same."""


class Disconnected(Exception):
    """The client disconnected, so no response is sent."""


class ServiceRequest(Request):
    """A request, from its head to the end of its response. ``scope["state"]["request"]`` is this object.

    It is cancelled, from any thread, when its client disconnects or the service stops.
    """

    record: DatabaseRecord | None = None
    """The database that the request was sent to; None at the service's own address."""
    tenant: Tenant = UNVERIFIED
    grant: AccessGrant
    """What its token permits; set where a token of a database is required."""
    is_use: bool = False
    """True if it counts as use, which keeps the service running: its token is valid, or it is a lease."""
    status: int = CLIENT_CLOSED
    received: int = 0
    sent: int = 0
    """The bytes of both bodies."""
    watch: asyncio.Task[None] | None = None
    """Waits for the client to disconnect; None for requests that began a moment ago."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope)
        self._receive_message, self._send_message = receive, send
        self.cancelled = False
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def responds(self) -> bool:
        """True if the response has begun."""
        return self.status != CLIENT_CLOSED

    async def receive_message(self) -> Message:
        """Receive a message of ASGI."""
        message = await self._receive_message()
        self.received += len(message.get("body", b""))
        return message

    async def send_message(self, message: Message) -> None:
        """Send a message of ASGI."""
        await self._send_message(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.sent += len(message.get("body", b""))

    async def disconnect(self) -> None:
        """Wait until the client disconnects."""
        while (await self.receive_message())["type"] != "http.disconnect":
            pass

    def cancel(self) -> None:
        """Cancel the request: call the callbacks, once."""
        with self._lock:
            self.cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the request is cancelled; immediately if it already is."""
        with self._lock:
            self._callbacks.append(callback)
        if self.cancelled:
            self.cancel()

    def remove_callback(self, callback: Callable[[], None]) -> None:
        """Remove a callback; do nothing if it was called or removed before."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
