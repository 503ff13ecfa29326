"""Reading the JSON object in the body of a management request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pipemagic.service.limits import parse_size
from pipemagic.service.responses import Refused


class Body:
    """The JSON object in a request's body, whatever its content type says; member names in either case.

    A member that is null counts as missing. What reads a member refuses (400) a value of another kind.
    """

    def __init__(self, body: bytes, *, optional: bool = False) -> None:
        self._members: dict[str, Any] = {}
        if optional and not body.strip():
            return
        try:
            members = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, f"the request body is not JSON: {error}") from None
        if not isinstance(members, dict):
            raise Refused(400, "the request body must be a JSON object")
        # `Name` is what the public command-line tool sends; where both are there the lower-case one counts.
        self._members = {name.lower(): value for name, value in sorted(members.items())}

    def has(self, name: str) -> bool:
        """Tell whether a member is there."""
        return self._members.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Give a string; without a default it has to be there."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise Refused(400, f'"{name}" must be a string')
        return value

    def boolean(self, name: str) -> bool:
        """Give true or false; it has to be there."""
        value = self._get(name, None)
        if not isinstance(value, bool):
            raise Refused(400, f'"{name}" must be true or false')
        return value

    def count(self, name: str) -> int:
        """Give a whole number from 0 on; it has to be there."""
        value = self._get(name, None)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise Refused(400, f'"{name}" must be a whole number, not negative')
        return value

    def size(self, name: str) -> int:
        """Give a number of bytes, sent as a number or as text such as ``256mb``; it has to be there."""
        value = self._get(name, None)
        if not isinstance(value, str):
            return self.count(name)
        size = parse_size(value)
        if size is None:
            raise Refused(400, f'"{name}" must be a size, such as 10000, 256mb or 1gb')
        return size

    def members(self, name: str) -> Mapping[str, Any]:
        """Give an object; it has to be there."""
        value = self._get(name, None)
        if not isinstance(value, dict):
            raise Refused(400, f'"{name}" must be an object')
        return value

    def refuse(self, names: tuple[str, ...]) -> None:
        """Refuse (400) members that would change the meaning, unless they are unset."""
        for name in names:
            if self._members.get(name):
                raise Refused(400, f'"{name}" is not supported by this service')

    def _get(self, name: str, default: Any) -> Any:
        value = self._members.get(name)
        if value is None:
            value = default
        if value is None:
            raise Refused(400, f'"{name}" is missing')
        return value
