"""The TLS certificate of a shared service."""

from __future__ import annotations

import ssl
from pathlib import Path

from pipemagic.errors import ServiceError


class Certificate:
    """A certificate and its key in PEM files; ``keyfile`` None means that the key is in ``certfile``.

    Raise `ServiceError` if they cannot be read or do not belong together.
    """

    def __init__(self, certfile: Path, keyfile: Path | None) -> None:
        self._certfile, self._keyfile = certfile, keyfile
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 and 1.3, no others
        self.context.set_alpn_protocols(["http/1.1"])
        self.load()

    def load(self) -> None:
        """Read the files, also after a renewal; new connections use them."""
        try:
            self.context.load_cert_chain(self._certfile, self._keyfile, password=_no_password)
        except OSError as error:  # also of ssl.SSLError
            raise _unusable(self._certfile, self._keyfile, error) from None

    def uncovered(self, domain: str) -> list[str]:
        """Return the names that the service needs and the certificate lacks, of the domain and all below it."""
        from cryptography import x509  # most services have no certificate

        leaf = x509.load_pem_x509_certificates(self._certfile.read_bytes())[0]
        try:
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return [domain, f"*.{domain}"]
        covered = {name.lower() for name in names.get_values_for_type(x509.DNSName)}
        parent = f"*.{domain.partition('.')[2]}"
        missing = [] if covered & {domain, parent} else [domain]
        return missing if f"*.{domain}" in covered else [*missing, f"*.{domain}"]


def _no_password() -> str:
    return ""  # OpenSSL would ask on the terminal


def _unusable(certfile: Path, keyfile: Path | None, error: OSError) -> ServiceError:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    if reason == "KEY_VALUES_MISMATCH":
        what = f"the key in {keyfile or certfile} is not that of the certificate in {certfile}"
    elif isinstance(error, ssl.SSLError):
        what = f"no certificate and unencrypted key in PEM can be read from {certfile}"
        what += f" and {keyfile}" if keyfile else ""
    else:
        what = f"the certificate or key cannot be read ({error.filename or certfile}): {reason}"
    return ServiceError(what, hint="--ssl-certfile and --ssl-keyfile name two PEM files", code="CERTIFICATE")
