"""The signing keys of databases and groups, and the tokens signed with them.

sqld checks a token's signature, but not everywhere which database it names: over gRPC, at the port that all clients
use, a token for one database opens the log of every other one with the same key. It also cannot revoke a token. So each
database has a key of its own, derived from the service's key, the database's id (which is never used again) and the
number of the last rotation of its tokens. The databases of a group also accept the key of their group.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pipemagic.service.auth import jwt
from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.records import DatabaseRecord, GroupRecord
from pipemagic.service.sqld.namespaces import Namespaces, label

DATABASE, GROUP = b"pipemagic sqld database key 1", b"pipemagic sqld group key 1"


class NamespaceTokens(TokenAuthority):
    """Issues tokens that the nodes check: signed with the key of a database or a group."""

    def __init__(
        self, folder: Path, catalog: Catalog, now: Callable[[], float], random: Callable[[int], bytes]
    ) -> None:
        super().__init__(folder, catalog, now, random)
        self._namespaces = Namespaces(catalog.store)

    def issue_group(self, group: GroupRecord, *, read_only: bool, expires_in: float | None, subject: str) -> str:
        """Return a token for the databases of a group, also later ones.

        It names no database: a node lets it into each namespace that has the key of the group.
        """
        claims = self._claims_of({"a": "ro" if read_only else "rw"}, expires_in, subject)
        return jwt.sign(claims, self._group_key(group.id, self._namespaces.group_rotation(group.id)))

    def _sign(self, database: DatabaseRecord, claims: dict[str, Any]) -> str:
        return jwt.sign({**claims, "id": label(database)}, self._database_key(database))

    def public_keys(self, record: DatabaseRecord) -> str:
        """Return the keys, in PEM, that check the tokens of a database now.

        A rotation of the database's own tokens must invalidate the group's tokens for this database, but not for the
        others: it then accepts no key of the group until the tokens of the group are rotated.
        """
        keys = [self._database_key(record)]
        if self._namespaces.group_rotation(record.group_id) == record.rotated:
            keys.append(self._group_key(record.group_id, record.rotated))
        return "".join(map(public_pem, keys))

    def _database_key(self, record: DatabaseRecord) -> Ed25519PrivateKey:
        return derive_key(self._key, DATABASE, record.id, record.rotated)

    def _group_key(self, group_id: str, rotation: int) -> Ed25519PrivateKey:
        return derive_key(self._key, GROUP, group_id, rotation)


def derive_key(master: Ed25519PrivateKey, purpose: bytes, identifier: str, rotation: int) -> Ed25519PrivateKey:
    """Return the key of a database or group, by its id, since a rotation."""
    info = f"{identifier} {rotation}".encode()
    derived = HKDF(hashes.SHA256(), 32, salt=purpose, info=info).derive(master.private_bytes_raw())
    return Ed25519PrivateKey.from_private_bytes(derived)


def public_pem(key: Ed25519PrivateKey) -> str:
    """Return the public part of a key in PEM."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()  # fmt: skip


def throwaway_key() -> str:
    """Return a public key, in PEM, whose private part is discarded: no token passes its check."""
    return public_pem(Ed25519PrivateKey.generate())
