"""A TCP proxy with the delay of a network, which records the requests."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType


class Requests:
    """Separates the bytes of a connection into HTTP requests; bodies have a Content-Length."""

    def __init__(self, whole: list[bytes]) -> None:
        self._whole = whole
        self._pending = b""

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._pending += data
        while b"\r\n\r\n" in self._pending:
            head, _, rest = self._pending.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if len(rest) < length:
                return
            self._whole.append(self._pending[: len(head) + 4 + length])
            self._pending = rest[length:]


class Proxy:
    """Forwards to a port of loopback in a thread; each direction takes ``delay`` seconds."""

    def __init__(self, port: int, delay: float = 0.0) -> None:
        self.port = 0
        self.requests: list[bytes] = []
        self._to, self._delay = port, delay
        self._writers: list[asyncio.StreamWriter] = []
        self._passing: list[asyncio.Future[list[None]]] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._passing)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", self._to)
        requests = Requests(self.requests)
        self._writers += [writer, out]
        self._passing.append(asyncio.gather(self._pass_on(reader, out, requests), self._pass_on(there, writer)))

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: Requests | None = None
    ) -> None:
        """Read immediately and write later, so that data that arrives meanwhile is not delayed twice."""
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        writing = asyncio.create_task(self._write(late, writer))
        data = b"..."
        while data:
            try:
                data = await reader.read(1 << 16)
            except ConnectionError:
                data = b""
            if requests is not None:
                requests.feed(data)
            late.put_nowait((self._loop.time() + self._delay, data))
        await writing

    async def _write(self, late: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            due, data = await late.get()
            await asyncio.sleep(due - self._loop.time())
            if not data:
                writer.close()
                return
            writer.write(data)
