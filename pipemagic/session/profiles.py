"""Profiles: named connections in files without secrets, the user's connections.toml and a project's pyproject.toml.

A project's file may come from another author, but the token is the user's. So nothing is sent to a host that
only a project names until the user trusts the route: the address together with the source of the token. An address on
this machine needs no trust as long as no token is sent there: another user may listen at its port.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipemagic.client.address import is_address, parse_address
from pipemagic.config import (
    config_folder,
    make_config_folder,
    private_lock,
    project_settings,
    read_toml,
    write_private,
)
from pipemagic.errors import PipemagicError, SessionError
from pipemagic.session.keep_alive import LONGEST, parse_duration
from pipemagic.session.tokens import KEYRING_SERVICE, KeySource, TokenSource, expand_home
from pipemagic.suggestions import did_you_mean
from pipemagic.text import has_secret, mask_passwords, shorten, word

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

FILE = "connections.toml"
TRUST_FILE = "trusted.toml"
LISTED = "%pipedb profiles lists them"
LOCK_TIMEOUT = 10.0
"""Seconds to wait for another process that saves a profile."""

_PLATFORM_TOKEN = "platform token"
_LONGEST_SHOWN = 100  # characters of a project's text in a message
_NOT_WRITTEN = ("name", "path", "of_project", "code")
_TOKEN_KEYS = re.compile(
    r"(auth[_-]?|api[_-]?|access[_-]?|(remote[_-]?)?encryption[_-]?)?(token|jwt|key)|password|secret", re.IGNORECASE
)


@dataclass(frozen=True)
class Route:
    """An address, and the source of the token that is sent there; '' means the default variables.

    ``key`` is the source of the encryption key, ``follow`` the other host to which both may be sent; '' for none.
    """

    address: str
    token: str = ""
    key: str = ""
    follow: str = ""

    @property
    def is_silent(self) -> bool:
        """Whether it is on this machine and names no source of a secret."""
        has_source = self.token not in ("", _PLATFORM_TOKEN) or self.key or self.follow
        return not has_source and parse_address(self.address).loopback

    def __str__(self) -> str:
        token = self.token or "PIPEMAGIC_TOKEN or TURSO_AUTH_TOKEN"
        key = f", encryption key: {_in_ascii(self.key)}" if self.key else ""
        follow = f", follows: {_in_ascii(self.follow)}" if self.follow else ""
        return f"{_in_ascii(self.address)} (token: {_in_ascii(token)}{key}{follow})"


@dataclass(frozen=True)
class Profile:
    """How to connect to a database: by its ``address``, or as a ``database`` of an organization.

    ``organization`` and ``at`` (the address of the management API) select another organization than the current one;
    ``api_token_env`` is the variable with its token. ``keyring`` is True, or a service in the keyring, as is
    ``encryption_key_keyring``. ``follow`` is another host to which the server may refer. With ``read_only`` statements
    that may write are refused; ``keep_alive`` is a duration. ``code`` is exchanged for the token, and in no file.
    ``path`` is its file; ``of_project`` is True for the file of a project, which may come from another author.
    """

    name: str
    address: str | None = None
    database: str | None = None
    organization: str | None = None
    at: str | None = None
    api_token_env: str | None = None
    token_env: str | None = None
    token_file: str | None = None
    keyring: str | bool | None = None
    encryption_key_env: str | None = None
    encryption_key_keyring: str | bool | None = None
    follow: str | None = None
    timeout: float | None = None
    read_only: bool | None = None
    keep_alive: str | float | None = None
    code: str | None = None
    path: Path | None = field(default=None, compare=False)
    of_project: bool = field(default=False, compare=False)

    @property
    def token_source(self) -> TokenSource:
        """The source of the address's token; a relative file starts at the folder of the profile's file."""
        file = self.token_file
        if file is not None and self.path is not None:
            file = str(self.path.parent / expand_home(file))
        keyring = KEYRING_SERVICE if self.keyring is True else self.keyring or None
        return TokenSource(self.token_env, file, keyring, self.code)

    @property
    def key_source(self) -> KeySource:
        """The source of the database's encryption key."""
        return KeySource.of(self.encryption_key_env, self.encryption_key_keyring)

    @property
    def route_options(self) -> str:
        """The options of a command line for the encryption key and the host to follow, with a blank before each."""
        key = self.key_source
        options = [
            f"--encryption-key-env {key.env}" if key.env else "",
            "--encryption-key-keyring" if key.keyring else "",
            f"--follow {self.follow}" if self.follow else "",
        ]
        return "".join(f" {option}" for option in options if option)

    @property
    def portable(self) -> Profile:
        """The profile in a form that can be saved in any file, without ``keep_alive``."""
        return replace(self, keep_alive=None, path=None, of_project=False)

    def with_options(
        self, name: str | None, source: TokenSource, key: KeySource, timeout: float | None, *, read_only: bool,
        follow: str | None,
    ) -> Profile:  # fmt: skip
        """Return the profile with these options instead of its own."""
        profile = replace(
            self, name=name or self.name, timeout=timeout or self.timeout,
            read_only=read_only or self.read_only or None, follow=follow or self.follow,
        )  # fmt: skip
        if key:
            keyring = True if key.keyring == KEYRING_SERVICE else key.keyring
            profile = replace(profile, encryption_key_env=key.env, encryption_key_keyring=keyring)
        if not source:
            return profile
        keyring = True if source.keyring == KEYRING_SERVICE else source.keyring
        return replace(
            profile, token_env=source.env, token_file=source.absolute_file, keyring=keyring, code=source.code
        )

    @property
    def kept_for(self) -> float | None:
        """How long the server-side connection is kept alive, in seconds."""
        return None if self.keep_alive is None else parse_duration(str(self.keep_alive))

    @property
    def token_from(self) -> str:
        """The source of the token as text, '' for the default variables and the prompt."""
        if self.token_env or self.token_file:
            return f"variable {self.token_env}" if self.token_env else f"file {self.token_file}"
        return "keyring" if self.keyring else ""

    @property
    def where(self) -> str:
        """The address or database, for people."""
        if self.address is not None:
            return self.address
        return f"{self.database} of {self.organization}" if self.organization else str(self.database)

    @property
    def route(self) -> Route | None:
        """Where a token is sent; None for the current organization. Raise AddressError if it is malformed."""
        kinds = (("variable", self.key_source.env), ("keyring", self.key_source.keyring))
        key = next((f"{kind} {value}" for kind, value in kinds if value), "")
        if self.address is not None:
            source = self.token_source
            sources = (("variable", source.env), ("file", self._real_token_file), ("keyring", source.keyring))
            address, token = self.address, next((f"{kind} {value}" for kind, value in sources if value), "")
        else:
            variable = self.api_token_env
            token = f"{_PLATFORM_TOKEN} in variable {variable}" if variable else _PLATFORM_TOKEN
            if self.at is None:
                changes = variable or key or self.follow
                return Route("PIPEMAGIC_API_URL", token, key, self.follow or "") if changes else None
            address = self.at
        return Route(parse_address(address).address, token, key, self.follow or "")

    @property
    def _real_token_file(self) -> str | None:
        """The path of the token file; a link in the project is resolved, because the project can change it."""
        file = self.token_source.absolute_file
        if file is None or not self.of_project or self.path is None:
            return file
        return os.path.realpath(file) if Path(file).is_relative_to(self.path.parent.absolute()) else file

    def settings(self) -> dict[str, Any]:
        """Return the keys and values as in a file."""
        values = {
            attribute.name.replace("_", "-"): getattr(self, attribute.name)
            for attribute in fields(self)
            if attribute.name not in _NOT_WRITTEN
        }
        return {
            key: value
            for key, value in values.items()
            if value is not None and key.replace("-", "_") not in _NOT_WRITTEN
        }


_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "keyring": ((bool, str), "true, false or a service of the keyring"),
    "encryption_key_keyring": ((bool, str), "true, false or a service of the keyring"),
    "timeout": ((int, float), "a number of seconds"),
    "read_only": ((bool,), "true or false"),
    "keep_alive": ((str, int, float), 'a duration, such as "10m" or 90'),
}
_SOURCES = {
    "token": ("token_env", "token_file", "keyring"),
    "encryption key": ("encryption_key_env", "encryption_key_keyring"),
}


def parse(name: str, table: object, path: Path, *, of_project: bool = False) -> Profile:
    """Convert a TOML table to a profile; raise SessionError if it is malformed or contains a token."""
    at = f"profile {name} in {path.name}"
    if not isinstance(table, dict):
        import tomlkit

        header = f"[{tomlkit.key(name).as_string()}]"
        raise SessionError(f"{at} is not a table", hint=f'write {header} and address = "..." below it')
    options: dict[str, Any] = {}
    for key, value in table.items():
        _refuse_token(at, key, value)
        field_name = key.replace("-", "_")
        checked = _checked(at, key, value)
        if field_name in options:
            raise SessionError(f"{at} has {key} twice", hint=f"write it once, as {field_name.replace('_', '-')}")
        options[field_name] = checked
    if ("address" in options) == ("database" in options):
        what = "both an address and a database" if "address" in options else "neither an address nor a database"
        raise SessionError(f"{at} has {what}", hint="write one of the two")
    for secret, keys in _SOURCES.items():
        if len(sources := [key for key in keys if options.get(key)]) > 1:
            raise SessionError(f"{at} has {' and '.join(sources)}", hint=f"name one source of the {secret}")
    if "address" in options and (wrong := {"organization", "at", "api_token_env"} & options.keys()):
        raise SessionError(f"{at} has {' and '.join(sorted(wrong))}", hint="an address belongs to no organization")
    sources = [key for key in _SOURCES["token"] if options.get(key)]
    if "database" in options and sources:
        raise SessionError(f"{at} has {sources[0]}", hint="pipemagic creates the token of an organization's database")
    return Profile(name, **options, path=path, of_project=of_project)


def is_secret(key: str, value: str) -> bool:
    """Return True if the value of a key in a file is a token or a password, or an address with one."""
    return bool(_TOKEN_KEYS.fullmatch(key)) or has_secret(value) or mask_passwords(value) != value


def _refuse_token(at: str, key: str, value: object) -> None:
    if has_secret(key) or (isinstance(value, str) and is_secret(key, value)):
        raise SessionError(
            f"{at} contains a token, which must not be in that file",
            hint='remove it and name its source: token-env = "VARIABLE", token-file = "PATH", keyring = true, or '
            'encryption-key-env = "VARIABLE"',
        )


def _checked(at: str, key: str, value: object) -> object:
    names = [attribute.name for attribute in fields(Profile) if attribute.name not in _NOT_WRITTEN]
    name = key.replace("-", "_")
    if name not in names:
        keys = [item.replace("_", "-") for item in names]
        hint = did_you_mean(key, keys) or f"it can have {', '.join(keys)}"
        raise SessionError(f"{at} has {key[:40]!r}, which is not a key of profiles", hint=hint)
    types, expected = _TYPES.get(name, ((str,), "a text"))
    is_switch = isinstance(value, bool)
    if (
        not isinstance(value, types)
        or (is_switch and bool not in types)
        or (isinstance(value, int | float) and not is_switch and not 0 < value <= LONGEST)
        or (isinstance(value, str) and not value.strip())
    ):
        raise SessionError(f"{at}: {key} is {expected}")
    if name == "keep_alive":
        try:
            parse_duration(str(value))
        except SessionError as error:
            raise SessionError(f"{at}: {key}: {error.message}", hint=error.hint) from None
    return value


class Profiles:
    """The profiles of the user, then those of the project; files are read each time, since they are edited.

    ``path`` is the user's file; ``folder`` returns the folder where the search for a pyproject.toml begins.
    """

    def __init__(self, path: Path | None = None, folder: Callable[[], Path] | None = Path.cwd) -> None:
        self._path = path
        self._folder = folder

    @property
    def path(self) -> Path:
        """The user's file, which may not exist."""
        return self._path or config_folder() / FILE

    def names(self) -> list[str]:
        """Return the names, also of profiles that cannot be used."""
        return list(dict.fromkeys(name for _, table in self._tables() for name in table))

    def get(self, name: str) -> Profile | None:
        """Return a profile, None if no profile has that name; raise SessionError if it cannot be used."""
        for place, (path, table) in enumerate(self._tables()):
            if name in table:
                return parse(name, table[name], path, of_project=place > 0)
        return None

    @property
    def trust_file(self) -> Path:
        """The file of trusted routes; the user's own profiles need no trust."""
        return self.path.with_name(TRUST_FILE)

    def check_trusted(self, profile: Profile, *, has_token: bool, sent: str = "nothing") -> None:
        """Raise SessionError if a profile of a project has a route that the user does not trust.

        ``has_token`` is True if a token would be sent although the profile names no source of one. ``sent`` says what
        was not sent.
        """
        route = profile.route if profile.of_project else None
        if route is None or (route.is_silent and not has_token):
            return
        if route in self._trusted() or route in self._own_routes():
            return
        name = profile.name or str(profile.address)
        name = word(name) if name.isprintable() else ascii(name)
        raise SessionError(
            f"{profile.path.name if profile.path else 'the project'} of this project leads to {route}, which you "
            f"did not name yourself; {sent} was sent",
            hint=f"if that is right, trust it once: %pipedb profiles --trust {name}",
        )

    def trust(self, name: str) -> Route:
        """Trust the route of a project's profile, or of an address as the project's default, and return it.

        Raise SessionError if no profile has that name, or if it needs no trust.
        """
        profile = Profile(name, address=name, of_project=True) if is_address(name) else self.get(name)
        if profile is None:
            raise SessionError(f"profile {name!r} does not exist", hint=did_you_mean(name, self.names()) or LISTED)
        route = profile.route if profile.of_project else None
        if route is None:
            raise SessionError(f"profile {name} does not require trust: it is yours, or names no other address")
        with self._edited(self.trust_file) as document:
            document["trusted"] = [asdict(entry) for entry in dict.fromkeys([*self._trusted(), route])]
        return route

    def _trusted(self) -> list[Route]:
        entries = read_toml(self.trust_file).get("trusted", [])
        return [
            Route(*(entry.get(attribute.name, "") for attribute in fields(Route)))
            for entry in (entries if isinstance(entries, list) else [])
            if isinstance(entry, dict)
            and isinstance(entry.get("address"), str)
            and all(isinstance(value, str) for value in entry.values())
        ]

    def _own_routes(self) -> Iterator[Route | None]:
        for name, table in read_toml(self.path).items():
            with suppress(PipemagicError):  # raised when the profile is used
                yield parse(name, table, self.path).route

    def save(self, profile: Profile) -> None:
        """Add a profile to the user's file; raise SessionError if the name is taken there."""
        with self._edited(self.path) as document:
            if profile.name in document:
                raise SessionError(
                    f"profile {profile.name!r} already exists",
                    hint=f"%pipedb profiles --delete {word(profile.name)}",
                )
            parse(profile.name, profile.settings(), self.path)  # an invalid profile is not written
            document[profile.name] = profile.settings()

    def delete(self, name: str) -> None:
        """Remove a profile from the user's file; raise SessionError if it is not there."""
        with self._edited(self.path) as document:
            if name not in document:
                hint = did_you_mean(name, document) or LISTED
                raise SessionError(f"profile {name!r} does not exist in {self.path.name}", hint=hint)
            del document[name]

    def _tables(self) -> list[tuple[Path, dict[str, Any]]]:
        tables = [(self.path, read_toml(self.path))]
        if self._folder is not None:
            path, table = project_settings(self._folder())
            connections = table.get("connections", {})
            tables.append((path, connections if isinstance(connections, dict) else {}))
        return tables

    @contextmanager
    def _edited(self, path: Path) -> Iterator[TOMLDocument]:
        """Lock a file, yield its content, and write it back unless the block raises; comments are kept."""
        import tomlkit

        make_config_folder(path.parent)
        try:
            lock = private_lock(self.path.with_suffix(".lock")).acquire(LOCK_TIMEOUT)
        except TimeoutError:
            raise SessionError(f"another process has {self.path} locked", hint="try again") from None
        with lock:
            read_toml(path)  # raises the error for a malformed file
            text = path.read_bytes().decode("utf-8-sig") if path.exists() else ""  # keeps its line ends
            document = tomlkit.parse(text)
            yield document
            write_private(path, tomlkit.dumps(document).encode())


def _in_ascii(text: str) -> str:
    """Return text of another author in ASCII, since other letters may look alike."""
    return shorten(text if text.isascii() and text.isprintable() else ascii(text), _LONGEST_SHOWN)
