"""The addresses of a service: its settings and their checks, and the host names in requests."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.errors import ServiceError

if TYPE_CHECKING:
    from starlette.requests import Request

LOOPBACK, LOOPBACK_6 = "127.0.0.1", "::1"
LOCAL_DOMAIN = "localhost"
LOOPBACK_HOSTS = frozenset({LOOPBACK, LOCAL_DOMAIN, "[::1]"})
"""Host headers that mean the service itself, whatever its domain is."""

TLS_PORT, PLAIN_PORT = 8443, 8080
"""The default ports of a shared service: users and firewalls have to know the port."""

NO_TLS = "NO_TLS"
"""Code of the error for a network address without TLS."""

_DEFAULT_PORTS = {"https": 443, "http": 80}
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_DATABASE_LABEL = 64  # of 63 characters, with its dot


@dataclass(frozen=True)
class Hosting:
    """The address of the service; by default on loopback, for this machine only.

    ``host`` is an address of this machine, ``domain`` the name of the service: databases are at names below it.
    ``certfile`` (PEM, with intermediate certificates) and ``keyfile`` switch TLS on. Raise `ServiceError` for settings
    that cannot work, and for a network address without TLS unless ``insecure_http`` is set.
    """

    host: str = LOOPBACK
    domain: str = LOCAL_DOMAIN
    certfile: Path | None = None
    keyfile: Path | None = None
    insecure_http: bool = False

    def __post_init__(self) -> None:
        self._check_host()
        self._check_domain()
        if self.keyfile is not None and self.certfile is None:
            raise _refused("--ssl-keyfile requires --ssl-certfile", "name the certificate with --ssl-certfile")
        if not self.on_loopback and self.domain == LOCAL_DOMAIN:
            raise _refused(
                f"--host {self.host} accepts connections from other machines, which requires a domain name",
                "add --domain, for example --domain db.example.org; requests for other names are refused",
            )
        if not self.on_loopback and self.certfile is None and not self.insecure_http:
            raise _refused(
                f"--host {self.host} without TLS: tokens and data would cross the network unencrypted",
                "add --ssl-certfile and --ssl-keyfile, or listen on loopback behind a proxy with TLS, "
                "or add --insecure-http on a network that you trust",
                NO_TLS,
            )

    def _check_host(self) -> None:
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            hint = (
                "use 0.0.0.0 for all IPv4 addresses of this machine or :: for all addresses, and --domain for the name"
            )
            raise _refused(f"--host {self.host} is not an IP address", hint) from None

    def _check_domain(self) -> None:
        labels = self.domain.split(".")
        if len(self.domain) > 253 - _DATABASE_LABEL or not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdigit():
            raise _refused(
                f"--domain {self.domain[:100]} is not a domain name in lower case",
                "give a name such as db.example.org: each database gets a subdomain, which an IP address cannot have",
            )

    @property
    def on_loopback(self) -> bool:
        """True if only this machine can connect."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def local_only(self) -> bool:
        """True if it listens on plain HTTP at the addresses of ``localhost`` only."""
        return self.host == LOOPBACK and self.certfile is None

    @property
    def scheme(self) -> str:
        """``https`` or ``http``."""
        return "http" if self.certfile is None else "https"

    @property
    def default_port(self) -> int:
        """The port that a shared service takes if none is named."""
        return PLAIN_PORT if self.certfile is None else TLS_PORT

    def url(self, port: int) -> str:
        """Return the public URL of the service."""
        suffix = "" if port == _DEFAULT_PORTS[self.scheme] else f":{port}"
        host = f"[{LOOPBACK_6}]" if self.host == LOOPBACK_6 else LOOPBACK
        return f"{self.scheme}://{host if self.domain == LOCAL_DOMAIN else self.domain}{suffix}"


def _refused(message: str, hint: str, code: str = "HOSTING") -> ServiceError:
    return ServiceError(message, hint=hint, code=code)


@lru_cache(maxsize=1024)
def host_of(header: str) -> str:
    """Return a Host header without its port and the dot of an absolute name, in lower case."""
    host = header.lower()
    if ":" in host and not host.endswith("]"):
        host = host.rpartition(":")[0]
    return host.removesuffix(".")


def origin_of(request: Request, host: str) -> str:
    """Return the address of another host of this service, as the client of a request reaches it.

    A proxy that terminates TLS sends X-Forwarded-Proto, and further proxies append theirs. Any client can send it, but
    it affects only the addresses in the responses to that client.
    """
    scheme = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    if scheme not in ("http", "https"):
        scheme = request.scope["scheme"]
    header = request.headers.get("host", "")
    port = header[header.rindex(":") :] if ":" in header and not header.endswith("]") else ""
    return f"{scheme}://{host}{port}"


def proxied_url(request: Request) -> str | None:
    """Return the service's own address as the client reaches it below the path of a proxy; None without such a path.

    A proxy offers no host names of databases, so clients use this address, where the token names the database.
    """
    path = request.scope.get("root_path")
    return f"{origin_of(request, host_of(request.headers.get('host', '')))}{path}" if path else None
