"""The sockets that the service listens at, and its certificate."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import sys
from pathlib import Path
from typing import NamedTuple

from pipemagic.config import write_private
from pipemagic.errors import ServiceError
from pipemagic.service.hosting import LOOPBACK, LOOPBACK_6

log = logging.getLogger(__name__)

_ATTEMPTS = 16
"""Ports that are tried to find one that is free at both addresses of ``localhost``."""

_OTHER_LOOPBACK = {LOOPBACK: LOOPBACK_6, "0.0.0.0": LOOPBACK_6, LOOPBACK_6: LOOPBACK}
"""Addresses at which ``localhost`` reaches the service, and the other address of that name. ``::`` includes both."""


class Listener(NamedTuple):
    """A bound socket; ``tls`` is None for plain HTTP."""

    socket: socket.socket
    tls: ssl.SSLContext | None = None


class Certificate:
    """A certificate and its key in PEM files; ``keyfile`` None means that the key is in ``certfile``.

    Raise `ServiceError` if they cannot be read or do not belong together.
    """

    def __init__(self, certfile: Path, keyfile: Path | None) -> None:
        self._certfile, self._keyfile = certfile, keyfile
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 and 1.3, no others
        self.context.set_alpn_protocols(["http/1.1"])
        self.reload()

    def reload(self) -> None:
        """Read the files, also after a renewal; new connections use them."""
        # A context whose certificate and key do not belong together is unusable, so another one is tried first.
        try:
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
                context.load_cert_chain(self._certfile, self._keyfile, password=lambda: "")  # otherwise it prompts
        except OSError as error:  # also of ssl.SSLError
            raise _unusable(self._certfile, self._keyfile, error) from None

    def uncovered(self, domain: str) -> list[str]:
        """Return the host names that the certificate lacks, of the domain and all names below it."""
        from cryptography import x509  # most services have no certificate

        leaf = x509.load_pem_x509_certificates(self._certfile.read_bytes())[0]
        try:
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return [domain, f"*.{domain}"]
        covered = {name.lower() for name in names.get_values_for_type(x509.DNSName)}
        accepted = {domain: {domain, f"*.{domain.partition('.')[2]}"}, f"*.{domain}": {f"*.{domain}"}}
        return [name for name, forms in accepted.items() if not covered & forms]


def _unusable(certfile: Path, keyfile: Path | None, error: OSError) -> ServiceError:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    if reason == "KEY_VALUES_MISMATCH":
        what = f"the key in {keyfile or certfile} does not match the certificate in {certfile}"
    elif isinstance(error, ssl.SSLError):
        files = f"{certfile} and {keyfile}" if keyfile else f"{certfile}"
        what = f"cannot read a certificate and an unencrypted key in PEM format from {files}"
    else:
        what = f"cannot read the certificate or key ({error.filename or certfile}): {reason}"
    return ServiceError(what, hint="--ssl-certfile and --ssl-keyfile name two PEM files", code="CERTIFICATE")


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket to an address and port of this machine; raise `ServiceError` if that is not possible."""
    try:
        return _bind(host, port)
    except PermissionError as error:
        hint = "choose a port above 1023, or grant CAP_NET_BIND_SERVICE to the process, as a unit of systemd can"
        raise _cannot_listen(host, port, error, hint, "PORT_NOT_ALLOWED") from error
    except OSError as error:
        hint = "choose another port with --port, or use --port 0 for any free port"
        raise _cannot_listen(host, port, error, hint, "PORT_IN_USE") from error


def _cannot_listen(host: str, port: int, error: OSError, hint: str, code: str) -> ServiceError:
    return ServiceError(f"cannot listen on port {port} of {host}: {error.strerror}", hint=hint, code=code)


class BoundPort(NamedTuple):
    """The sockets of one port. ``taken`` is the address for ``localhost`` that another process has, '' if none has."""

    sockets: list[socket.socket]
    taken: str = ""

    @property
    def port(self) -> int:
        """The port."""
        port: int = self.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Close the sockets."""
        for sock in self.sockets:
            sock.close()


def listen_for_localhost(host: str, port: int) -> BoundPort:
    """Bind a socket to an address; if programs reach that as ``localhost``, also to the other address of this name.

    Programs try [::1] or 127.0.0.1 first, and would send a token to any other process there. If the port is 0, one is
    chosen that is free at both. Raise `ServiceError` if the address itself cannot be used.
    """
    other = _OTHER_LOOPBACK.get(host)
    attempts = _ATTEMPTS if port == 0 else 1
    while True:
        bound, attempts = BoundPort([listen(host, port)]), attempts - 1
        if other is None:
            return bound
        try:
            bound.sockets.append(_bind(other, bound.port))
        except OSError as error:
            if isinstance(error, PermissionError) or error.errno == errno.EADDRINUSE:
                if not attempts:
                    return bound._replace(taken=other)
                bound.close()
                continue
            # This machine has no such address.
        return bound


def listen_locally(port_file: Path, port: int | None) -> BoundPort:
    """Bind sockets to loopback and write the port to a file, so that addresses survive a restart.

    ``port``: None takes the one of the last start if it is free, else any; 0 takes any.
    """
    if port is None:
        bound = _listen_again(last_port(port_file)) or listen_for_localhost(LOOPBACK, 0)
    else:
        bound = listen_for_localhost(LOOPBACK, port)
    if bound.port != last_port(port_file):
        try:
            write_private(port_file, str(bound.port).encode())
        except OSError as error:  # such as a full disk: databases can be read all the same
            log.warning("%s cannot be written, so the next start may use another port: %s", port_file, error.strerror)
    return bound


def _listen_again(port: int) -> BoundPort | None:
    """Bind sockets to the port of the last start; return None if it is not free."""
    try:
        bound = listen_for_localhost(LOOPBACK, port)
    except ServiceError:
        return None
    if bound.taken:
        bound.close()
        return None
    return bound


def last_port(port_file: Path) -> int:
    """Return the port of the last start; 0 if there is none."""
    try:
        port = int(port_file.read_text())
    except (OSError, ValueError):
        return 0
    return port if 0 < port < 65536 else 0


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol left to the system, asyncio would not switch Nagle's delay (40 ms for each response) off.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":  # there SO_REUSEADDR would let others take the port over
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # all addresses, those of IPv4 too
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    return listener
