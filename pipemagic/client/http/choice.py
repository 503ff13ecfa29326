"""Which way requests go: directly, unless there is a client of the user's or a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipemagic.client.http.direct import DirectSender
from pipemagic.client.http.messages import Sender
from pipemagic.client.urls import Endpoint

if TYPE_CHECKING:
    import httpx


def sender_to(endpoint: Endpoint, client: httpx.Client | None) -> Sender:
    """Give the way to an endpoint; through ``client`` if there is one. httpx is imported only if it is needed."""
    if client is not None:
        from pipemagic.client.http.through_httpx import HttpxSender

        return HttpxSender(client)
    if has_proxy(endpoint):
        from pipemagic.client.http.through_httpx import ProxySender

        return ProxySender()
    return DirectSender()


def has_proxy(endpoint: Endpoint) -> bool:
    """Tell whether the environment, or the system, names a proxy for an endpoint. One must never see loopback."""
    if endpoint.loopback:
        return False
    from urllib.request import getproxies, proxy_bypass  # takes long to import

    proxies = getproxies()
    if not (proxies.get(endpoint.scheme) or proxies.get("all")):
        return False
    return not proxy_bypass(f"{endpoint.named_host}{endpoint.port_suffix}")
