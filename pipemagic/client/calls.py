"""Calls of a management API: addresses, the organization, JSON bodies, refusals as typed errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self
from urllib.parse import quote

import msgspec

from pipemagic.client import urls
from pipemagic.client.bodies import HttpAnswer
from pipemagic.client.failures import PARTLY
from pipemagic.client.resources import Organization, listed
from pipemagic.client.secrets import Token
from pipemagic.client.transport import CONNECT_TIMEOUT, READ_TIMEOUT, Transport
from pipemagic.errors import (
    AlreadyExists,
    NotFound,
    ParameterError,
    ProtocolError,
    SessionError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import httpx

_MISSING = re.compile(
    r"\b(?:organization|group|database|location|member|user|account|token|instance|record)\b.*"
    r"(?:not found|n[o']t exist|is not)|could not find", re.IGNORECASE | re.DOTALL,
)  # fmt: skip
"""A 404 that speaks of a thing: the endpoint is there, the thing is not."""


class Caller:
    """Sends the calls of one organization. The endpoints are in the classes that build on it."""

    def __init__(
        self,
        url: str | urls.Endpoint,
        token: str | Token | None = None,
        *,
        organization: str | None = None,
        timeout: float | None = READ_TIMEOUT,
        connect_timeout: float | None = CONNECT_TIMEOUT,
        http: httpx.Client | None = None,
    ) -> None:
        endpoint = urls.parse(url.rstrip("/").removesuffix("/v1")) if isinstance(url, str) else url
        self.endpoint = endpoint
        self.transport = Transport(endpoint, token, timeout=timeout, connect_timeout=connect_timeout, http=http)
        self._slug = organization

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.endpoint.address!r}, organization={self._slug!r})"

    @property
    def url(self) -> str:
        """The address, as it was named."""
        return self.endpoint.address

    @property
    def slug(self) -> str:
        """The organization's slug; asked from the server if none was given and there is only one to choose."""
        if self._slug is None:
            try:
                mine = self.organizations()
            except UnsupportedError:
                raise SessionError(
                    "which organization? This management API does not list them",
                    hint="%pipedb organization SLUG --at ADDRESS, or organization='slug' in Python",
                ) from None
            mine = [one for one in mine if one.type == "personal"] if len(mine) > 1 else mine
            if len(mine) != 1:
                raise SessionError("which organization?", hint="name it with organization='slug'")
            self._slug = mine[0].slug
        return self._slug

    @property
    def known_slug(self) -> str:
        """The organization's slug as far as it is known without asking the server, else ''."""
        return self._slug or ""

    def organizations(self) -> list[Organization]:
        """List the organizations of the token's owner."""
        parsed = self._list("/v1/organizations", "organizations")
        return [Organization.read(one) for one in listed(parsed, "organizations")]

    def close(self) -> None:
        """Close the connections to the server."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _path(self, *parts: str) -> str:
        return self._below("/v1/organizations", self.slug, *parts)

    def _below(self, start: str, *parts: str) -> str:
        for part in parts:
            if part in ("", ".", ".."):
                raise ParameterError(f"{part!r} is not a name")
        return "/".join([start, *(quote(part, safe="") for part in parts)])

    def _get(self, path: str) -> Any:
        return self._call("GET", path)

    def _offered(self, what: str, method: str, path: str, body: Mapping[str, object] | None = None, **more: Any) -> Any:
        """Call what only some services have: where it is missing the error says that, not that a name is wrong."""
        try:
            return self._call(method, path, body, **more)
        except NotFound as error:
            if _MISSING.search(error.message):
                raise
            raise UnsupportedError(f"this management API does not offer {what}") from None

    def _list(self, path: str, what: str, params: Mapping[str, str] | None = None) -> Any:
        """GET a list; a server with only the endpoints of the requirement has none."""
        try:
            return self._call("GET", path, params=params)
        except NotFound as error:
            if _MISSING.search(error.message):
                raise
            raise UnsupportedError(f"this management API has no list of {what}") from None

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request; gives the parsed JSON of the answer, None where it has no body."""
        content = None if body is None else msgspec.json.encode(body)
        answer = self.transport.request(method, path, content, params=params)
        if not answer.ok:
            self._refuse(answer, method)
        if not answer.body.strip():
            return None
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(
                f"what came back from {self.url} is not JSON", hint="is this the address of a management API?"
            ) from None

    def _refuse(self, answer: HttpAnswer, method: str) -> NoReturn:
        error = self.transport.refusal(answer)
        text = error.message.lower()
        taken = "already exist" in text or (answer.status == 422 and "available" in text)
        # Asking, changing and deleting take no name.
        if method == "POST" and (answer.status == 409 or (answer.status in (400, 422) and taken)):
            # The text after the status is the server's own.
            raise AlreadyExists(
                error.message.rpartition(f"(HTTP {answer.status}): ")[2],
                status=answer.status,
                hint="choose another name, or go on with what is there",
            )
        if answer.status in (405, 501):
            raise UnsupportedError("this management API does not offer that")
        if answer.status == 404:
            error.hint = "is the name right? names of groups and databases belong to one organization"
        elif answer.status == 403:
            error.hint = ""  # that of databases is about their read-only tokens; here the text says what it takes
        elif answer.status == 402:
            error.hint = "the organization's plan does not include this"
        elif answer.status >= 500 and method == "GET":
            later = "" if "try again" in error.hint else "; try again later"
            error.hint = error.hint.replace(PARTLY, "nothing was changed") + later
        raise error
