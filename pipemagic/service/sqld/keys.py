"""A signing key for every database, and the tokens signed with it.

sqld checks a token's signature, but not everywhere which database it names: over gRPC, at the port that all
clients use, a token for one database opens the log of every other one with the same key. And it cannot revoke
a token. So each database has a key of its own, made from the service's key, the database's id (which is never
used again) and the number of the last rotation of its tokens: what was made before then opens nothing.
"""

from __future__ import annotations

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pipemagic.service.auth import jwt
from pipemagic.service.registry.records import DatabaseRecord

_PURPOSE = b"pipemagic sqld database key 1"


class DatabaseKeys:
    """Derives each database's key from the service's signing key."""

    def __init__(self, master: Ed25519PrivateKey) -> None:
        self._master = master.private_bytes_raw()

    def private(self, record: DatabaseRecord) -> Ed25519PrivateKey:
        """Give the key that signs the database's tokens now."""
        return self.derive(record.id, record.rotated)

    def derive(self, database: str, rotation: int) -> Ed25519PrivateKey:
        """Give the key of a database, by its id, since a rotation."""
        info = f"{database} {rotation}".encode()
        derived = HKDF(hashes.SHA256(), 32, salt=_PURPOSE, info=info).derive(self._master)
        return Ed25519PrivateKey.from_private_bytes(derived)

    def public(self, record: DatabaseRecord) -> str:
        """Give the key that checks them, in PEM."""
        return public_pem(self.private(record)).decode()

    def sign(self, record: DatabaseRecord, claims: dict[str, object]) -> str:
        """Make a token; sqld knows the database by its label."""
        return jwt.sign({**claims, "id": label(record)}, self.private(record))


def label(record: DatabaseRecord) -> str:
    """Give the name of a database's namespace: the first label of its host name, which sqld routes by."""
    return record.hostname.partition(".")[0]


def public_pem(key: Ed25519PrivateKey) -> bytes:
    """Give the public part of a key in PEM."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )  # fmt: skip


def nobodys_key() -> str:
    """Give a public key, in PEM, whose private part is thrown away: what it is to check is always refused."""
    return public_pem(Ed25519PrivateKey.generate()).decode()
