"""Sources of tokens (variables, files, the system's keyring), targets of new tokens, and how to renew one.

Tokens never appear in a cell, an output or the history.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from pipemagic.client.address import Endpoint
from pipemagic.client.pasted import strip_quotes, token_in
from pipemagic.client.secrets import EncryptionKey, Secret
from pipemagic.config import open_without_waiting, write_private
from pipemagic.errors import AddressError, ConnectError, SessionError
from pipemagic.suggestions import did_you_mean
from pipemagic.text import has_secret

if TYPE_CHECKING:
    from pipemagic.session.profiles import Profile

DATABASE_TOKENS = ("PIPEMAGIC_TOKEN", "TURSO_AUTH_TOKEN")
"""Variables with a database token, in order of precedence."""

PLATFORM_TOKENS = ("PIPEMAGIC_API_TOKEN", "TURSO_API_TOKEN")
"""Variables with a platform token, in order of precedence."""

DATABASE_URL = "PIPEMAGIC_URL"
"""Variable with the address of the database to connect to if none is named."""

API_URL = "PIPEMAGIC_API_URL"
"""Variable with the address of a management API other than the embedded service's."""

_OF_A_SHELL = re.compile(r"\$(?:env:)?\{?([A-Za-z_]\w*)\}?|%([A-Za-z_]\w*)%")  # how shells write a variable's value
_OF_A_TOKEN = re.compile("TOKEN|JWT|SECRET|KEY", re.IGNORECASE)
_HEX_KEY = re.compile("[0-9a-fA-F]{32,}")
MOST_BYTES = 64 * 1024  # a longer file is not a token file


@dataclass(frozen=True)
class TokenSource:
    """The source of a database token, as named by the user: at most one of these.

    ``env`` is an environment variable; ``file`` contains only the token; ``keyring`` is a service in the keyring, in
    which the entry has the name of the address. ``code`` is exchanged for the token. ``remember`` stores a token from
    the prompt in the keyring.
    """

    env: str | None = None
    file: str | None = None
    keyring: str | None = None
    code: str | None = None
    remember: bool = False

    @classmethod
    def of(
        cls, env: str | None, file: str | None, keyring: str | bool, code: str | None, *, remember: bool
    ) -> TokenSource:
        """Return the source for options; ``keyring`` True is the default service, as is ``remember`` alone."""
        service = KEYRING_SERVICE if keyring is True or (remember and not keyring) else keyring or None
        return cls(env, file, service, code or None, remember)

    def __post_init__(self) -> None:
        if sum(place is not None for place in (self.env, self.file, self.keyring, self.code)) > 1:
            raise SessionError(
                "the token has more than one source", hint="use one of --token-env, --token-file, --keyring, --code"
            )

    @property
    def absolute_file(self) -> str | None:
        """The absolute path of the file."""
        return None if self.file is None else str(expand_home(self.file).absolute())

    def __bool__(self) -> bool:
        return bool(self.env or self.file or self.keyring or self.code)


@dataclass(frozen=True)
class KeySource:
    """The source of a database's encryption key, as named by the user: at most one of these.

    ``env`` is an environment variable, ``keyring`` a service in the keyring. No variable is a default: a key is sent
    only where the user says so.
    """

    env: str | None = None
    keyring: str | None = None

    @classmethod
    def of(cls, env: str | None, keyring: str | bool | None) -> KeySource:
        """Return the source for options; ``keyring`` True is the default service."""
        return cls(env, KEYRING_SERVICE if keyring is True else keyring or None)

    def __post_init__(self) -> None:
        if self.env is not None and self.keyring is not None:
            raise SessionError(
                "the encryption key has more than one source",
                hint="use one of --encryption-key-env, --encryption-key-keyring",
            )

    def __bool__(self) -> bool:
        return bool(self.env or self.keyring)


@contextmanager
def naming_variable(name: str) -> Iterator[None]:
    """Put the name of the variable that contains an address, '' for none, before the message of an AddressError."""
    try:
        yield
    except AddressError as error:
        raise (error.replace(message=f"{name}: {error.message}") if name else error) from None


def set_in_python(name: str, python: Mapping[str, object]) -> str:
    """Return how to set an environment variable in Python, so that its value is in no notebook and no history.

    ``python`` are the variables of Python, which may have the value.
    """
    if isinstance(python.get(name), str):
        return f'set it:\nimport os; os.environ["{name}"] = {name}'
    line = f'import getpass, os; os.environ["{name}"] = getpass.getpass()'
    return f"set it before Python starts, or type it at a prompt:\n{line}"


def set_in_terminal(name: str, python: Mapping[str, object]) -> str:  # noqa: ARG001
    """Return how to set an environment variable in a terminal, so that its value is not in the shell's history."""
    if sys.platform == "win32":
        return f"set it in PowerShell, which asks for the value:\n$env:{name} = Read-Host"
    return f"set it in this terminal, which asks for the value:\nread -rs {name} && export {name}"


class Environment:
    """The environment variables; the repr does not show them, since some are tokens.

    Quotation marks, blanks and line breaks around a value are not part of it. ``python`` returns the Python variables
    of a notebook, which are taken for environment variables at times; ``how_to_set`` returns a hint for a
    variable that is not set.
    """

    __slots__ = ("_how_to_set", "_python", "_variables")

    def __init__(
        self,
        variables: Mapping[str, str],
        python: Callable[[], Mapping[str, object]] = dict,
        how_to_set: Callable[[str, Mapping[str, object]], str] = set_in_python,
    ) -> None:
        self._variables = variables
        self._python = python
        self._how_to_set = how_to_set

    @property
    def variables(self) -> Mapping[str, str]:
        """All of them."""
        return self._variables

    def get(self, name: str) -> str | None:
        """Return a variable that is set and not empty, else None."""
        return strip_quotes(self._variables.get(name, "")) or None

    def token_variable(self, named: str | None, usual: Sequence[str]) -> str:
        """Return the name of the variable that `token` reads; the first of the ``usual`` if none is set."""
        return named or next((name for name in usual if self.get(name)), usual[0])

    def token(self, named: str | None, usual: Sequence[str]) -> Secret | None:
        """Return the token in the variable ``named``, which must be set, else in the first of the ``usual``."""
        if named is None:
            return next(filter(None, map(self._token_in, usual)), None)
        return self._named(named, "token", "--token-env")

    def encryption_key(self, source: KeySource, endpoint: Endpoint) -> EncryptionKey | None:
        """Return the encryption key of the database at an endpoint from its source; None if no source is named."""
        if source.keyring is not None:
            return EncryptionKey(keyring_get(source.keyring, key_entry(endpoint), "encryption key"))
        return self.encryption_key_in(source.env)

    def encryption_key_in(self, name: str | None, cipher: str | None = None) -> EncryptionKey | None:
        """Return the encryption key in a variable, with the ``cipher`` of a new database; None if none is named."""
        if name is None:
            if cipher is not None:
                raise SessionError("--encryption-cipher requires a key", hint="add --encryption-key-env VARIABLE")
            return None
        return EncryptionKey(self._named(name, "encryption key", "--encryption-key-env"), cipher or "")

    def _named(self, name: str, noun: str, option: str) -> Secret:
        _check_is_name(name, noun, option)
        secret = self._token_in(name, noun)
        if secret is None:
            raise self.unset(name)
        return secret

    def _token_in(self, name: str, noun: str = "token") -> Secret | None:
        return Secret(token_in(self.get(name) or "", f"the {noun} in the environment variable {name}")) or None

    def unset(self, name: str) -> SessionError:
        """Return the error for a variable that is not set, with the line that sets it."""
        python = self._python()
        variables = [variable for variable in self._variables if _OF_A_TOKEN.search(variable) and self.get(variable)]
        but = f"; the Python variable {name} is not an environment variable" if name in python else ""
        meant = "" if but else did_you_mean(name, variables)
        hint = "\n".join(filter(None, [meant, self._how_to_set(name, python)]))
        return SessionError(f"the environment variable {name} is not set{but}", hint=hint)

    def database_token(self, source: TokenSource, entry: str) -> Secret | None:
        """Return the token for an address from its source, by default from the default variables.

        Return None if no source is named and no variable is set, or if the keyring is to store it and has none yet.
        """
        if source.file is not None:
            return read_token_file(Path(source.file))
        if source.keyring is not None:
            return keyring_get(source.keyring, entry, missing_ok=source.remember)
        return self.token(source.env, DATABASE_TOKENS)


def _check_is_name(text: str, noun: str, option: str) -> None:
    """Raise SessionError for text that is not the name of a variable; it is not repeated, as it may be the secret."""
    example = f"MY_{noun.split()[-1].upper()}"
    hint = f"put the {noun} into a variable, for example {example}, and write {option} {example}"
    if not has_secret(text) and not _HEX_KEY.fullmatch(text):
        if text.isidentifier():
            return
        if value := _OF_A_SHELL.fullmatch(text):
            hint = f"write the name alone: {option} {value[1] or value[2]}"
    raise SessionError(f"{option} takes the name of an environment variable, not the {noun}", hint=hint)


def expand_home(path: str | Path) -> Path:
    """Replace ``~`` by the home folder, if there is such a user."""
    return Path(os.path.expanduser(path))


def read_token_file(path: Path) -> Secret:
    """Return the token in a file; raise SessionError if others may read the file or it contains anything else.

    A link is followed (mounted secrets are links); the opened file and the link's owner are checked.
    """
    path = expand_home(path)
    try:
        _refuse_foreign(path, path.lstat())
        with open_without_waiting(path) as file:
            _refuse_open_to_others(path, os.fstat(file.fileno()))
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SessionError(
            f"cannot read the token file {path}: {error.strerror}", hint="the file must contain only the token"
        ) from None
    except ValueError:
        raise SessionError("that is not a valid file name", hint="name a file that contains only the token") from None
    return Secret(_only_token(path, data))


def _refuse_foreign(path: Path, about: os.stat_result) -> None:
    if sys.platform != "win32" and about.st_uid not in (os.getuid(), 0):
        raise SessionError(
            f"the token file {path} belongs to another user, who can replace the token",
            hint=f"copy it: install -m 600 {path} ~/token",
        )


def _refuse_open_to_others(path: Path, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise SessionError(f"the token file {path} is not a file", hint="name a file that contains only the token")
    _refuse_foreign(path, about)
    if sys.platform != "win32" and about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SessionError(f"the token file {path} is accessible to other users", hint=f"chmod 600 {path}")


def _only_token(path: Path, data: bytes) -> str:
    hint = "put only the token into it, on one line"
    more = SessionError(f"the token file {path} contains more than a token", hint=hint)
    if len(data) > MOST_BYTES:
        raise more
    try:
        token = token_in(data.decode("utf-8", "replace"))
    except ConnectError:
        raise more from None
    if not token:
        raise SessionError(f"the token file {path} is empty", hint=hint)
    return token


# -- the keyring

KEYRING_SERVICE = "pipemagic"
"""The default service in the keyring."""

ELSE = "or name a variable with --token-env (for a key: --encryption-key-env) or a file with --token-file"


def keyring_entry(endpoint: Endpoint) -> str:
    """Return the name of the token of an address in the keyring: its host, and its port if that is not the default."""
    return f"{endpoint.named_host}{endpoint.port_suffix}"


def key_entry(endpoint: Endpoint) -> str:
    """Return the name of the encryption key of the database at an address in the keyring."""
    return f"{keyring_entry(endpoint)} encryption key"


def keyring_get(service: str, entry: str, noun: str = "token", *, missing_ok: bool = False) -> Secret | None:
    """Return the secret of an entry; raise SessionError without a keyring or, unless ``missing_ok``, without one."""
    with _keyring_errors():
        text = _keyring().get_password(service, entry)
    address = entry.removesuffix(f" {noun}")
    if token := token_in(text or "", f"the {noun} of {address} in the keyring"):
        return Secret(token)
    if missing_ok:
        return None
    line = f"in a terminal: pipemagic auth store libsql://{address}"
    hint = f"{line}; here: --remember, which asks for it once" if noun == "token" else f"{line} --encryption-key"
    raise SessionError(f"the keyring contains no {noun} for {address}", hint=hint)


def keyring_put(service: str, entry: str, token: str) -> None:
    """Store a token in the keyring; raise SessionError if that fails."""
    with _keyring_errors():
        _keyring().set_password(service, entry, str(token))


def keyring_delete(service: str, entry: str, noun: str = "token") -> bool:
    """Delete a secret from the keyring; return False if there was none."""
    if keyring_get(service, entry, noun, missing_ok=True) is None:
        return False
    with _keyring_errors():
        _keyring().delete_password(service, entry)
    return True


def _keyring() -> ModuleType:
    try:
        import keyring
    except ImportError:
        raise SessionError("the package keyring is not installed", hint=f"pip install keyring, {ELSE}") from None
    return keyring


@contextmanager
def _keyring_errors() -> Iterator[None]:
    """Raise SessionError, with a hint, for the errors of the package keyring."""
    try:
        yield
    except SessionError:
        raise
    except Exception as error:
        from keyring.errors import KeyringError

        if not isinstance(error, KeyringError | OSError):
            raise
        raise _keyring_error(error) from None


def _keyring_error(error: Exception) -> SessionError:
    from keyring.errors import KeyringLocked, NoKeyringError

    if isinstance(error, NoKeyringError):
        return SessionError("this machine has no keyring", hint=f"set one up for the package keyring, {ELSE}")
    if isinstance(error, KeyringLocked):
        return SessionError("the keyring is locked", hint=f"unlock it, {ELSE}")
    return SessionError(f"the keyring failed: {type(error).__name__}", hint=ELSE.removeprefix("or "))


# -- targets of new tokens

REPLACE = "--replace overwrites it"


class VariableTarget:
    """A variable of this process's environment, which later child processes inherit."""

    def __init__(self, name: str, *, replace: bool = False, into: MutableMapping[str, str] = os.environ) -> None:
        self._name = name
        self._replace = replace
        self._into = into

    def __str__(self) -> str:
        return f"the variable {self._name}"

    def check(self) -> None:
        """Raise SessionError if the name is invalid or the variable is already set."""
        if not (self._name.isascii() and self._name.isidentifier()):
            raise SessionError(
                "that is not a valid name of an environment variable", hint="use a name such as FLIGHTS_TOKEN"
            )
        if self._name in self._into and not self._replace:
            raise SessionError(f"the variable {self._name} is already set", hint=REPLACE)

    def store(self, token: Secret) -> None:
        """Set the variable."""
        self._into[self._name] = str(token)


class FileTarget:
    """A file that contains only the token and is readable only by its owner."""

    def __init__(self, path: str | Path, *, replace: bool = False) -> None:
        self._path = expand_home(path)
        self._replace = replace

    def __str__(self) -> str:
        return f"the file {self._path}"

    def check(self) -> None:
        """Raise SessionError if the file already exists or its folder does not."""
        try:
            there, folder = os.path.lexists(self._path), self._path.parent.is_dir()
        except ValueError:
            raise SessionError("that is not a valid file name") from None
        if there and not (self._replace and self._path.is_file()):
            hint = REPLACE if self._path.is_file() else "name a file in it"
            raise SessionError(f"{self._path} already exists", hint=hint)
        if not folder:
            raise SessionError(f"folder {self._path.parent} does not exist", hint="create it, or name another file")

    def store(self, token: Secret) -> None:
        """Write the file atomically."""
        data = f"{token}\n".encode()
        try:
            if self._replace:
                write_private(self._path, data)
                return
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            raise SessionError(f"cannot write {self._path}: {error.strerror}") from None


# -- tokens that the server no longer accepts

EXPIRED = (
    "an open transaction stays open until its time limit; after that, %pipedb retry reruns its statements. "
    "If someone gave you the token, ask them for a new one."
)
"""The consequences of an expired token."""


def refused_token_hint(name: str, profile: Profile | None, *, renewal: str, expired: bool) -> str:
    """Return how to renew the token of a connection that the server no longer accepts, by where it came from.

    ``renewal`` is the line that creates a new one for a database of an organization, '' for an address.
    """
    ends = EXPIRED if expired else "an open transaction stays open, unless the tokens were invalidated"
    if renewal:
        return f"{renewal} creates a new one: {ends}"
    if profile is None or profile.address is None:
        return f"renew the token and connect again: {ends}"
    again = f"%pipedb connect {profile.address}{profile.route_options}"
    if name != profile.address:
        again += f" --as {name}"
    source = profile.token_source
    put, option = token_renewal(source, profile.address)
    return f"{put}, then connect again: {ends}\n{again}{option}"


def token_renewal(source: TokenSource, address: str) -> tuple[str, str]:
    """Return where to put a new token, and the option that names this source."""
    if source.env is not None:
        return f"put a new token into the variable {source.env}", f" --token-env {source.env}"
    if source.file is not None:
        return f"put a new token into the file {source.file}", f' --token-file "{source.file}"'
    if source.keyring is not None:
        return f"put a new token into the keyring (in a terminal: pipemagic auth store {address})", " --keyring"
    if source.code is not None:
        return "ask for a new code", " --code LETTERS"
    return "put a new token into PIPEMAGIC_TOKEN, or unset the variable to be asked for it", ""
