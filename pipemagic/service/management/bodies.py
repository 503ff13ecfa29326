"""Reading the JSON object in the body of a management request."""

from __future__ import annotations

from typing import Any

import msgspec

from pipemagic.service.http import Refused, Request


class Body:
    """The JSON object in a request's body, whatever its content type says; member names in either case."""

    def __init__(self, request: Request, *, optional: bool = False) -> None:
        self._members: dict[str, Any] = {}
        if optional and not request.body.strip():
            return
        try:
            members = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, f"the request body is not JSON: {error}") from None
        if not isinstance(members, dict):
            raise Refused(400, "the request body must be a JSON object")
        # `Name` is what the public command-line tool sends; where both are there the lower-case one counts.
        self._members = {name.lower(): value for name, value in sorted(members.items())}

    def text(self, name: str) -> str:
        """Give a string; 400 if it is missing or no string."""
        value = self._required(name)
        if not isinstance(value, str):
            raise Refused(400, f'"{name}" must be a string')
        return value

    def boolean(self, name: str) -> bool:
        """Give true or false; 400 if it is missing or neither."""
        value = self._required(name)
        if not isinstance(value, bool):
            raise Refused(400, f'"{name}" must be true or false')
        return value

    def has(self, name: str) -> bool:
        """Tell whether a member is there and not null."""
        return self._members.get(name) is not None

    def refuse(self, names: tuple[str, ...]) -> None:
        """Refuse (400) members that would change the meaning, unless they are unset."""
        for name in names:
            if self._members.get(name):
                raise Refused(400, f'"{name}" is not supported by this service')

    def _required(self, name: str) -> Any:
        if self._members.get(name) is None:
            raise Refused(400, f'"{name}" is missing')
        return self._members[name]
