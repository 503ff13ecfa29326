"""Cross-origin requests: which pages of other sites may read answers in a browser. None, unless it is asked for."""

from __future__ import annotations

from collections.abc import Collection

from pipemagic.service import http
from pipemagic.service.http import Request, Response

ANY = "*"
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
REMEMBERED = "7200"
"""Seconds for which a browser need not ask again."""


class Cors:
    """The origins that are let in, as browsers write them (``https://app.example.org``), or ``*`` for all.

    Tokens travel in a header that a page has to set by itself, never in cookies: a page without a token gets
    nothing that anybody else would not.
    """

    def __init__(self, origins: Collection[str] = ()) -> None:
        self._origins = frozenset(origins)

    def preflight(self, request: Request) -> Response | None:
        """Answer a browser that asks whether it may send a request; None if this is no such question."""
        if request.method != "OPTIONS":
            return None
        headers = request.headers
        if "access-control-request-method" not in headers or self._allowed(request) is None:
            return None
        wanted = headers.get("access-control-request-headers", "authorization, content-type")
        answer = [
            ("access-control-allow-methods", METHODS), ("access-control-allow-headers", wanted),
            ("access-control-max-age", REMEMBERED),
        ]  # fmt: skip
        if headers.get("access-control-request-private-network") == "true":
            answer.append(("access-control-allow-private-network", "true"))
        return http.empty(200, *answer)

    def headers(self, request: Request) -> tuple[tuple[str, str], ...]:
        """Give the headers that let the page of this request read the answer."""
        if not self._origins:
            return ()
        allowed = self._allowed(request)
        found = () if allowed is None else (("access-control-allow-origin", allowed),)
        return found if ANY in self._origins else (*found, ("vary", "origin"))

    def _allowed(self, request: Request) -> str | None:
        origin = request.headers.get("origin")
        if origin is None:
            return None
        if ANY in self._origins:
            return ANY
        return origin if origin in self._origins else None
