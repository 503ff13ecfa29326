"""HTTP by httpx: through a client that the user gave, or through a proxy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from pipemagic.client.http.connection import trusting
from pipemagic.client.http.messages import Broken, NotConnected, ProxyRefused, Request, Silent, TookTooLong
from pipemagic.client.http.pool import KEEPALIVE, MOST_IDLE
from pipemagic.errors import ConnectError


class HttpxSender:
    """Sends with an ``httpx.Client``, which stays its owner's to close."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def send(self, request: Request) -> HttpxReply:
        """Send a request and wait for the head of its answer; see `Sender`."""
        endpoint = request.endpoint
        extensions = {}
        if endpoint.scheme == "https" and endpoint.host_header is not None:
            extensions["sni_hostname"] = endpoint.named_host
        headers = {"Host": endpoint.host_header} if endpoint.host_header is not None else {}
        with _as_ours():
            built = self._client.build_request(
                request.method, endpoint.url + request.path,
                content=request.body, headers={**headers, **request.headers}, extensions=extensions,
                timeout=httpx.Timeout(request.timeout, connect=request.connect_timeout),
            )  # fmt: skip
            until = request.until()
            return HttpxReply(self._client.send(built, follow_redirects=False, stream=True), until)

    def close(self) -> None:
        """Do nothing: the client is not ours."""

    def hang_up(self) -> None:
        """Do nothing: httpx has no way to end a request from another thread."""


class ProxySender(HttpxSender):
    """Sends through the proxy that the environment names, or the system."""

    def __init__(self) -> None:
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=MOST_IDLE, keepalive_expiry=KEEPALIVE
        )  # fmt: skip
        try:
            client = httpx.Client(limits=limits, verify=trusting())
        except ImportError as error:  # of a package that only some proxies need
            raise ConnectError(f"the proxy that the environment names cannot be used: {error}") from None
        except (ValueError, httpx.InvalidURL):  # whose text may hold a part of a password
            raise ConnectError(
                "the proxy that the environment names is not one that can be used",
                hint="look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; write http://host:port",
            ) from None
        super().__init__(client)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class HttpxReply:
    """An answer that comes through httpx; ``until`` is when all of it must be there."""

    def __init__(self, response: httpx.Response, until: float) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._response, self._until = response, until
        self._body: bytes | None = None

    @property
    def received_size(self) -> int:
        """Bytes of the body so far."""
        return self._response.num_bytes_downloaded

    def read(self) -> bytes:
        """Give the whole body."""
        if self._body is None:
            try:
                self._body = b"".join(self.pieces())
            finally:
                self.close()
        return self._body

    def pieces(self) -> Iterator[bytes]:
        """Give the body as it comes."""
        with _as_ours():
            for piece in self._response.iter_bytes():
                if time.monotonic() > self._until:
                    raise Silent("the answer did not come to its end in time")
                yield piece

    def close(self) -> None:
        """Hang up, unless all of it came, and after a refusal in any case."""
        self._response.close()
        stream = self._response.extensions.get("network_stream")
        if self.status >= 400 and stream is not None and self._response.http_version.startswith("HTTP/1"):
            stream.close()  # the pool sees that it is closed


@contextmanager
def _as_ours() -> Iterator[None]:
    """Raise what a `Sender` raises, for what httpx raises."""
    try:
        yield
    except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        raise TookTooLong(str(error)) from error
    except httpx.ProxyError as error:
        raise ProxyRefused(str(error)) from error
    except httpx.ConnectError as error:
        raise NotConnected(str(error)) from error
    except httpx.TimeoutException as error:
        raise Silent(str(error)) from None
    except httpx.InvalidURL as error:
        raise UnicodeError(str(error)) from None
    except httpx.RequestError as error:
        text = str(error)
        raise Broken(text, not_http="illegal status line" in text or "SSL" in text) from None
