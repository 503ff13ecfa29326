"""Requests through the proxy of the environment or the system."""

from __future__ import annotations

import httpx

from pipemagic.errors import ConnectError
from pipemagic.http.connection import IDLE_LIMIT, MAX_IDLE, keep_alive_options
from pipemagic.http.tls import tls_context


def find_proxy(scheme: str, host: str) -> str | None:
    """Return the proxy for a host, which may have a port; None if there is none."""
    from urllib.request import getproxies, proxy_bypass  # its import is slow

    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def proxy_transport(proxy: str) -> httpx.BaseTransport:
    """Return a transport through a proxy; ConnectError if it cannot be used."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_LIMIT)
    try:
        return httpx.HTTPTransport(
            verify=tls_context(), limits=limits, proxy=proxy, socket_options=keep_alive_options()
        )
    except ImportError as error:  # a package that only some proxies need
        raise ConnectError(f"the proxy of the environment cannot be used: {error}") from None
    except (ValueError, httpx.InvalidURL):  # whose text may contain a part of a password
        raise ConnectError(
            "the proxy of the environment cannot be used",
            hint="check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; write http://host:port",
        ) from None
