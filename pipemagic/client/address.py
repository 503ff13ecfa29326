"""Parse and check addresses of servers."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pipemagic.client import local_files
from pipemagic.client.pasted import strip_quotes, unpaired_quote
from pipemagic.errors import AddressError

SCHEMES = {"libsql": "https", "turso": "https", "https": "https", "http": "http", "wss": "https", "ws": "http"}
_LIBSQL = ("libsql", "turso")  # the scheme does not tell whether there is TLS
_SECRETS = {"authtoken", "auth_token", "token", "jwt", "access_token", "password"}
_HOST = re.compile(r"[\w.-]+\Z")
_USER = re.compile(r"[^\s:/@]+:\S*@")
_HOST_AND_PORT = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:.]+\]):\d{1,5}(?:/[\w.~/-]*)?(?:\?.*)?", re.DOTALL)
_NO_SLASHES = re.compile(rf"({'|'.join(SCHEMES)}):/?(?=[\w\[])", re.IGNORECASE)
_HOST_ALONE = re.compile(
    r"(?P<host>(?:[\w-]+\.)+[A-Za-z][\w-]+|(?:\d{1,3}\.){3}\d{1,3}|\[[\da-fA-F:.]+\])(?:[:/][^?#]*)?(?:[?#].*)?",
    re.DOTALL,
)
"""A host name with a dot, or a number, and perhaps a path."""
_DEFAULT_PORT = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Endpoint:
    """The endpoint of a server: ``url`` is an http(s) address without a trailing slash.

    ``host_header`` is the Host header, if it is not the host of ``url``: ``localhost`` and names below it mean
    127.0.0.1. Such names do not resolve on every machine, and others resolve ``localhost`` to [::1], where another
    process may listen. ``follow`` is the other host, HOST or HOST:PORT, to which the server may refer; '' if there is
    none. ``challenge`` is for the embedded service, whose port another process may have taken: the server
    has to respond to it on each new connection (`http.transport`).
    """

    url: str
    host_header: str | None = None
    follow: str = ""
    challenge: Callable[[], tuple[str, bytes]] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return urlsplit(self.url).scheme

    @cached_property
    def port(self) -> int:
        """The TCP port; defaults to the port of the scheme."""
        return urlsplit(self.url).port or _DEFAULT_PORT[self.scheme]

    @cached_property
    def port_suffix(self) -> str:
        """The port with a colon, '' for the default port of the scheme."""
        return "" if self.port == _DEFAULT_PORT[self.scheme] else f":{self.port}"

    @cached_property
    def named_host(self) -> str:
        """The host name or address that the user named, in lower case, without a port."""
        return (urlsplit(f"//{self.host_header or urlsplit(self.url).netloc}").hostname or "").rstrip(".")

    @cached_property
    def address(self) -> str:
        """The address as the user named it, for messages and reprs."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{self.host_header or parts.netloc}{parts.path}"

    @cached_property
    def loopback(self) -> bool:
        """Whether the endpoint is on this machine."""
        return _is_loopback(self.named_host)

    def refer(self, address: str) -> Endpoint:
        """Return the endpoint of an address that this server named, with the same challenge if it is its own port."""
        other = parse_address(address)
        same = (other.scheme, _connects_to(other), other.port) == (self.scheme, _connects_to(self), self.port)
        return replace(other, challenge=self.challenge) if same else other


def is_address(text: str) -> bool:
    """Return True for an address: text with ``://``, or HOST:PORT."""
    return "://" in text or _HOST_AND_PORT.fullmatch(text) is not None


def parse_address(target: str, default_scheme: str = "libsql") -> Endpoint:
    """Parse the address of a server: ``libsql://``, ``https://``, ``http://`` (also ``wss://`` and ``ws://``).

    ``libsql://`` and ``turso://`` mean https, as hosted services define it; on loopback, and with ``?tls=0``, they mean
    http. HOST:PORT without a scheme is read as libsql://HOST:PORT. Blanks and quotation marks around are removed.
    Raise AddressError for anything else, and for an address that contains a token or a password: addresses
    end up in histories, logs and saved notebooks. The hint for a host alone adds ``default_scheme``.
    """
    text = strip_quotes(target)
    if _HOST_AND_PORT.fullmatch(text):
        text = f"libsql://{text}"
    refuse_without_scheme(text, default_scheme)
    parts = _split(text)
    scheme = parts.scheme.lower()
    if scheme == "sqlite":
        raise _no_server(re.sub(r"\Asqlite:///?", "sqlite:", text, flags=re.IGNORECASE))
    if scheme not in SCHEMES:
        raise AddressError(
            f"{scheme}:// is not an address of a database server" if scheme else "the address has no scheme",
            hint="write libsql://..., https://... or http://...",
        )
    host, port = _host_and_port(parts)
    tls = _tls(parts, default=SCHEMES[scheme] == "https" and not (scheme in _LIBSQL and _is_loopback(host)))
    real = ("https" if tls else "http") if scheme in _LIBSQL else SCHEMES[scheme]
    netloc = f"[{host}]" if ":" in host else host
    suffix = f":{port}" if port is not None and port != _DEFAULT_PORT[real] else ""
    path = parts.path.rstrip("/")
    if _is_localhost(host):
        return Endpoint(f"{real}://127.0.0.1{suffix}{path}", host_header=netloc + suffix)
    return Endpoint(f"{real}://{netloc}{suffix}{path}")


def parse_api_address(url: str) -> Endpoint:
    """Parse the address of a management API, as `parse_address`; ``/v1`` at its end is removed."""
    endpoint = parse_address(url, "https")
    return replace(endpoint, url=endpoint.url.removesuffix("/v1"))


def refuse_without_scheme(text: str, scheme: str = "libsql") -> None:
    """Raise AddressError, with what to write, for a host without a scheme, a file, and a quotation mark without a pair.

    Other text may be a name, or an address.
    """
    if place := unpaired_quote(text):
        raise AddressError(f"the address {place} with a quotation mark", hint="remove it")
    if is_address(text):
        return
    if match := _NO_SLASHES.match(text):
        address = f"{match[1]}://{text[match.end() :]}"
        parse_address(address)  # raises an error for a token in it, and does not repeat it
        raise AddressError(f"the address has no // after {match[1]}:", hint=f"write {address}")
    if local_files.is_in_memory(text) or local_files.path_in(text):
        raise _no_server(text)
    if match := _HOST_ALONE.fullmatch(text):
        address = f"{'http' if _is_loopback(match['host'].strip('[]')) else scheme}://{text}"
        parse_address(address)  # raises an error for a token in it, and does not repeat it
        raise AddressError("the address has no scheme", hint=f"write {address}")


def _no_server(text: str) -> AddressError:
    """Return the error for a file, or ``:memory:``, with the command lines that make a database of it."""
    if local_files.is_in_memory(text):
        return AddressError("':memory:' is not a database on a server", hint="pipemagic db create NAME creates one")
    path = local_files.path_in(text)
    name = local_files.database_name(path)
    suffix = Path(path).suffix.lower()
    message = f"{path} names a file, not the address of a database"
    if suffix in local_files.TABLES:
        return AddressError(message, hint="in a notebook, %pipedb load loads its rows into a table of a database")
    option = "--from-dump" if suffix == local_files.SQL_TEXT else "--from-file"
    return AddressError(
        message,
        hint=f"create a database from it: pipemagic db create {name} {option} {shlex.quote(path)}\n"
        f"its address: pipemagic db show {name} --http-url",
    )


def check_base_url(endpoint: Endpoint, base_url: str) -> Endpoint:
    """Return the endpoint of a server's ``base_url``, if a token for ``endpoint`` may be sent there.

    With the same scheme and port these are allowed: the named host, a host that ends with ``-<named host>`` (an
    instance of the same database), and the same loopback address. With the same scheme, the host to follow is allowed
    as well. Raise AddressError for all others.
    """
    try:
        other = parse_address(base_url)
    except AddressError as error:
        raise _refused(endpoint, "an address that cannot be read") from error
    written = urlsplit(base_url.strip()).scheme.lower()
    if written not in _DEFAULT_PORT or other.scheme != endpoint.scheme:
        raise _refused(endpoint, other.address)
    if _is_followed(endpoint, other):
        return other
    if other.port != endpoint.port:
        raise _refused(endpoint, other.address)
    own_host, host = endpoint.named_host, other.named_host
    if host == own_host or (endpoint.loopback and _connects_to(other) == _connects_to(endpoint)):
        return other
    if not _is_address(own_host) and host.endswith(f"-{own_host}"):
        return other
    raise _refused(endpoint, other.address)


def parse_follow(text: str) -> str:
    """Return the host to follow in lower case, with its port if it has one; raise AddressError for anything else."""
    follow = strip_quotes(text).lower()
    try:
        parts = urlsplit(f"//{follow}")
        host, port = _host_and_port(parts)
    except (ValueError, AddressError):
        host, port = "", None
    if not host or parts.netloc != follow or "@" in follow:
        raise AddressError("the host to follow is not a host name", hint="write HOST or HOST:PORT, without a scheme")
    return f"[{host}]{'' if port is None else f':{port}'}" if ":" in host else follow.rstrip(".")


def _is_followed(endpoint: Endpoint, other: Endpoint) -> bool:
    """Return True for the host to follow, at its port, or else at that of the endpoint or of the scheme."""
    if not endpoint.follow:
        return False
    parts = urlsplit(f"//{endpoint.follow}")
    ports = (endpoint.port, _DEFAULT_PORT[endpoint.scheme]) if parts.port is None else (parts.port,)
    return other.named_host == (parts.hostname or "").rstrip(".") and other.port in ports


def instance_of(endpoint: Endpoint, other: Endpoint) -> str | None:
    """Return the part of an instance's host name before its database's host name; None for other names."""
    own_host, host = endpoint.named_host, other.named_host
    return host.removesuffix(f"-{own_host}") if host.endswith(f"-{own_host}") else None


def _refused(endpoint: Endpoint, where: str) -> AddressError:
    return AddressError(
        f"the server at {endpoint.address} refers to {where}, which is not the host you named; "
        "the token was not sent there",
        hint="earlier requests have run; if you trust it: --follow HOST in a magic or command, follow=... in Python",
    )


def _split(target: str) -> SplitResult:
    """Split an address and check its parts. No message repeats a part that may be secret."""
    try:
        parts = urlsplit(target)
        secrets = {key.lower() for key, _ in parse_qsl(parts.query, keep_blank_values=True)} & _SECRETS
        has_user = "@" in parts.netloc
    except ValueError:
        raise AddressError("the address cannot be read", hint="write it as https://host:port") from None
    if secrets or has_user:
        raise _carries_secret()
    if parts.fragment or re.search(r"[\s\\\x00-\x1f\x7f]", target):
        raise AddressError("the address contains spaces, backslashes or '#'", hint="write it as https://host:port")
    return parts


def refuse_user(name: str) -> None:
    """Raise AddressError for a name that is an address without its scheme: ``user:password@host``."""
    if _USER.match(name):
        raise _carries_secret()


def _carries_secret() -> AddressError:
    return AddressError(
        "the address contains a token or a password, which would be saved with the notebook",
        hint="remove it and pass the token as token=..., with --token-env NAME or in PIPEMAGIC_TOKEN",
    )


def _tls(parts: SplitResult, *, default: bool) -> bool:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    tls = options.pop("tls", None)
    if options or tls not in (None, "0", "1"):
        raise AddressError("the address has unknown options", hint="the options are ?tls=0 and ?tls=1")
    return default if tls is None else tls == "1"


def _host_and_port(parts: SplitResult) -> tuple[str, int | None]:
    try:
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise AddressError("the port of the address is not a number from 1 to 65535") from None
    if not host or port == 0 or not (_HOST.match(host) or _is_address(host)):
        raise AddressError("the address has no valid host name", hint="write it as https://host:port")
    return host, port


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_localhost(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def _is_loopback(host: str) -> bool:
    return _is_localhost(host) or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _connects_to(endpoint: Endpoint) -> str:
    """Return the host to connect to."""
    return (urlsplit(endpoint.url).hostname or "").rstrip(".")
