"""Terminates TLS in front of a server on loopback, for packages that support https: only."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path

import trustme


class TlsAuthority:
    """Issues certificates for 127.0.0.1; clients must trust ``file``."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.file = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.file))

    def issue(self, folder: Path) -> tuple[Path, Path]:
        """Write a certificate and its key to a folder; return both paths."""
        issued = self._authority.issue_cert("127.0.0.1")
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        issued.cert_chain_pems[0].write_to_path(str(certificate))
        issued.private_key_pem.write_to_path(str(key))
        return certificate, key

    def terminator(self, address: str) -> TlsTerminator:
        """Start a terminator in front of the server at ``http://127.0.0.1:PORT``."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert("127.0.0.1").configure_cert(context)
        return TlsTerminator(int(address.rpartition(":")[2]), context)


class TlsTerminator:
    """Listens at ``url`` and relays bytes."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port, self._context = port, context
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0, ssl=self._context)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stopping.wait()
        server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close their sockets

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self._port)
        writers = (writer, behind_writer)
        try:
            await asyncio.gather(_pump(reader, behind_writer), _pump(behind_reader, writer))
            for side in writers:
                with contextlib.suppress(OSError):
                    await side.wait_closed()
        finally:
            for side in writers:
                side.transport.abort()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._loop.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # also errors of TLS, and of peers that do not end TLS in time
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
