"""Certificates for the connections between the nodes of one machine.

sqld's gRPC port sends every database to any client, so it accepts only nodes with one of these certificates. The key of
the authority is discarded, so no other certificate can be created.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pipemagic.service.files import make_private_folder, write_private

NAME = "sqld"
"""The name that sqld expects in its peer's certificate, whatever its address."""
_LIFETIME = datetime.timedelta(days=3650)


@dataclass(frozen=True)
class Certificates:
    """Files in PEM: the certificate of the authority, and the certificate and key that all nodes use."""

    authority: Path
    certificate: Path
    key: Path


def create_certificates(folder: Path, now: datetime.datetime) -> Certificates:
    """Write a new authority's certificate, and one certificate with its key, into the folder."""
    make_private_folder(folder)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pipemagic nodes")])
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = (
        _builder(subject, issuer, key.public_key(), now)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(uses, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    files = Certificates(folder / "authority.pem", folder / "node.pem", folder / "node.key")
    write_private(files.authority, authority.public_bytes(serialization.Encoding.PEM))
    write_private(files.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    write_private(files.key, key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ))  # fmt: skip
    return files


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
    )
