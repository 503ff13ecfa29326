"""Requests through the proxy that the environment, or the system, names."""

from __future__ import annotations

import httpx

from pipemagic.errors import ConnectError
from pipemagic.http.connection import keep_alive_options, tls_context
from pipemagic.http.pool import KEEPALIVE, MAX_IDLE


def find_proxy(scheme: str, host: str) -> str | None:
    """Return the proxy for a host, which may have a port; None if there is none."""
    from urllib.request import getproxies, proxy_bypass  # takes long to import

    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def proxy_transport(proxy: str) -> httpx.BaseTransport:
    """Return a transport through a proxy; ConnectError if it cannot be used."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=KEEPALIVE)
    try:
        return httpx.HTTPTransport(
            verify=tls_context(), limits=limits, proxy=proxy, socket_options=keep_alive_options()
        )
    except ImportError as error:  # of a package that only some proxies need
        raise ConnectError(f"the proxy that the environment names cannot be used: {error}") from None
    except (ValueError, httpx.InvalidURL):  # whose text may hold a part of a password
        raise ConnectError(
            "the proxy that the environment names is not one that can be used",
            hint="look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; write http://host:port",
        ) from None
