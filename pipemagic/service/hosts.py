"""Host names, ports and origins from the headers of a request."""

from __future__ import annotations

from functools import lru_cache

from starlette.requests import Request


@lru_cache(maxsize=1024)
def host_of(header: str) -> str:
    """Return a Host header without its port and the dot of an absolute name, in lower case."""
    host = header.lower()
    if ":" in host and not host.endswith("]"):
        host = host.rpartition(":")[0]
    return host.removesuffix(".")


def port_of(header: str) -> str:
    """Return the port of a Host header with its colon; empty if it has none."""
    return header[header.rindex(":") :] if ":" in header and not header.endswith("]") else ""


def origin_of(request: Request, host: str) -> str:
    """Return the address of another host of this service, as the client of a request reaches it.

    A proxy that terminates TLS sends X-Forwarded-Proto. Any client can send it, but it affects only the addresses
    in the responses to that client.
    """
    scheme = request.headers.get("x-forwarded-proto", "").lower()
    if scheme not in ("http", "https"):
        scheme = request.scope["scheme"]
    return f"{scheme}://{host}{port_of(request.headers.get('host', ''))}"
