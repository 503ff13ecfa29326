"""Where profiles of a project may lead. Its file may be a stranger's, but the token that goes there is the user's.

So nothing is sent to a host that only a project names, until the user said once that it is right: for that address and
that place of a token. Addresses on this machine need no such word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.client import urls
from pipemagic.config import read_toml
from pipemagic.errors import PipemagicError, SessionError

if TYPE_CHECKING:
    from pipemagic.session.profiles import Profile

FILE = "trusted.toml"
_LONGEST = 100  # characters of what a stranger wrote, in a message


@dataclass(frozen=True)
class Route:
    """An address, and from where the token comes that is sent there; '' stands for the usual variables."""

    address: str
    token: str = ""

    @classmethod
    def of(cls, profile: Profile) -> Route | None:
        """Give that of a profile, None if it leads to nothing new; AddressError if its address is none."""
        if profile.address is not None:
            return cls._outward(profile.address, _database_token(profile))
        token = f"platform token in variable {profile.api_token_env}" if profile.api_token_env else "platform token"
        if profile.at is not None:
            return cls._outward(profile.at, token)
        return cls("PIPEMAGIC_API_URL", token) if profile.api_token_env else None

    @classmethod
    def _outward(cls, address: str, token: str) -> Route | None:
        endpoint = urls.parse(address)
        return None if endpoint.loopback else cls(endpoint.address, token)

    def __str__(self) -> str:
        token = self.token or "PIPEMAGIC_TOKEN or TURSO_AUTH_TOKEN"
        return f"{shown(self.address)} (token: {shown(token)})"


def _database_token(profile: Profile) -> str:
    source = profile.token_source
    places = (("variable", source.env), ("file", source.absolute_file), ("keyring", source.keyring))
    return next((f"{kind} {place}" for kind, place in places if place), "")


class Trusted:
    """The routes that the user trusts: those of the user's ``own`` profiles, and those in the file at ``path``."""

    def __init__(self, path: Path, own: Callable[[], Iterable[Profile]]) -> None:
        self.path = path
        self._own = own

    def check(self, profile: Profile) -> None:
        """Raise SessionError if the profile is a project's and leads where the user did not say that it may."""
        if profile.of_project and (route := Route.of(profile)) is not None and not self.knows(route):
            raise SessionError(
                f"{profile.path.name if profile.path else 'the project'} of this project leads to {route}, which you "
                "did not name yourself; nothing was sent",
                hint=f"if that is right, say so once: %pipedb profiles --trust {typed(profile.name)}",
            )

    def knows(self, route: Route) -> bool:
        """Tell whether a route is trusted."""
        return route in self._said() or route in self._named()

    def text_with(self, route: Route, value: Callable[[object], str]) -> str:
        """Give the text of the file that has a route more; ``value`` writes a value as TOML does."""
        said = dict.fromkeys([*self._said(), route])
        entries = (f"[[trusted]]\naddress = {value(one.address)}\ntoken = {value(one.token)}\n" for one in said)
        return "\n".join(("# Where profiles of projects may lead: %pipedb profiles --trust\n", *entries))

    def _said(self) -> list[Route]:
        entries = read_toml(self.path).get("trusted", [])
        found = [
            Route(one["address"], one.get("token", ""))
            for one in (entries if isinstance(entries, list) else [])
            if isinstance(one, dict) and isinstance(one.get("address"), str) and isinstance(one.get("token", ""), str)
        ]
        return list(dict.fromkeys(found))

    def _named(self) -> Iterator[Route]:
        for profile in self._own():
            try:
                route = Route.of(profile)
            except PipemagicError:
                continue  # it leads nowhere
            if route is not None:
                yield route


def typed(name: str) -> str:
    """Write a name as the line of a magic takes it, where it can."""
    from pipemagic.session.profiles import word

    return word(name) if name.isprintable() else ascii(name)


def shown(text: str) -> str:
    """Show what a stranger wrote: no control characters, and letters that look like others told apart."""
    plain = text if text.isascii() and text.isprintable() else ascii(text)
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}..."
