"""HTTP/1.1 over sockets, as a transport of httpx. This module does not import httpx, which is slow.

Others use `transport.HttpTransport`, `find_proxy` and `proxy_transport` of that module, and `tls`.
"""

CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a connection."""

READ_TIMEOUT = 60.0
"""Seconds to wait for the next part of a response."""
