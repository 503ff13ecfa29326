"""The one TLS context of all requests, and the certificate authorities that it trusts."""

from __future__ import annotations

import os
import ssl
import sys
from contextlib import suppress
from functools import cache

from pipemagic.errors import ConnectError

SYSTEM_FILES = (
    "/etc/ssl/cert.pem",  # Alpine, Arch, newer Fedora and RHEL, BSD
    "/etc/pki/tls/cert.pem",  # older Fedora and RHEL
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu
    "/etc/ssl/ca-bundle.pem",  # SUSE
)
"""Where systems keep their authorities; the OpenSSL of conda and of other portable Pythons looks elsewhere."""

_WRONG_HOST = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_WRONG_TIME = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED


def tls_context() -> ssl.SSLContext:
    """Return the TLS context of all connections.

    It trusts the authorities in SSL_CERT_FILE, SSL_CERT_DIR and REQUESTS_CA_BUNDLE; if none of these is set, those of
    the operating system and of certifi. Raise ConnectError if a named file cannot be read.
    """
    return _tls_context(_named_authorities())


def untrusted_hint(error: ssl.SSLCertVerificationError) -> str:
    """Return the hint for a certificate that was not accepted, which names the variables in use."""
    if error.verify_code in _WRONG_HOST:
        return "check the host: the certificate is for another host"
    if error.verify_code in _WRONG_TIME:
        return "check the clock of this machine; if it is right, the server needs a new certificate"
    paths = dict(_named_authorities())
    unset = [name for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE") if name not in paths]
    if unset:
        advice = f"if you trust the server, set {' or '.join(unset)} to the PEM file of its certificate authority"
    else:
        advice = "if you trust the server, add its certificate authority to one of these files"
    settings = " and ".join(f"{name}={path}" for name, path in paths.items())
    trusted = f"only the authorities in {settings}" if paths else "now the authorities of the system and of certifi"
    return f"{advice}; {trusted} are trusted"


def _named_authorities() -> tuple[tuple[str, str], ...]:
    """Return the variables that are set, with their values."""
    paths = {
        "SSL_CERT_FILE": os.environ.get("SSL_CERT_FILE"),
        "SSL_CERT_DIR": os.environ.get("SSL_CERT_DIR"),  # may be several folders
        "REQUESTS_CA_BUNDLE": os.environ.get("REQUESTS_CA_BUNDLE"),  # as with requests, a file or a folder
    }
    return tuple((name, path) for name, path in paths.items() if path)


@cache
def _tls_context(paths: tuple[tuple[str, str], ...]) -> ssl.SSLContext:
    """Return one context for all connections of the process, since its creation takes 20 to 40 ms."""
    if paths:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for name, path in paths:
            _load_named(context, name, path)
    else:
        import certifi

        context = _system_context()
        context.load_verify_locations(certifi.where())
    # As in curl and pip, a named certificate need not be a root, and the flaws of many company authorities that
    # `ssl.create_default_context` refuses since Python 3.13 are accepted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if keys := os.environ.get("SSLKEYLOGFILE"):
        context.keylog_filename = keys
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_named(context: ssl.SSLContext, name: str, path: str) -> None:
    is_folder = name == "SSL_CERT_DIR" or os.path.isdir(path)
    try:
        context.load_verify_locations(capath=path) if is_folder else context.load_verify_locations(cafile=path)
    except OSError as error:
        raise ConnectError(
            f"cannot read the trusted certificates in {path}: {error}",
            hint=f"check {name}; if it is unset, the certificates of the system and of certifi are trusted",
        ) from None


def _system_context() -> ssl.SSLContext:
    """Return a context that trusts the authorities of the operating system."""
    if sys.platform in ("darwin", "win32"):  # there OpenSSL has no file of them: the system checks certificates
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Not with truststore: on Linux it reads them again for each connection, which takes 22 ms.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    default = ssl.get_default_verify_paths().cafile
    file = next(filter(os.path.isfile, SYSTEM_FILES), None)
    if file is not None and (default is None or not os.path.samefile(file, default)):
        with suppress(OSError):  # a file without certificates; those of certifi are trusted, too
            context.load_verify_locations(cafile=file)
    return context
